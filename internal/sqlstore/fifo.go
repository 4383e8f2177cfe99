package sqlstore

import (
	"container/list"
	"context"
)

// A fifo is callers who wait, and go on in the order in which they came. A mutex of its owner guards it, but for await.
type fifo struct{ callers list.List }

// A caller waits in a fifo.
type caller struct {
	at     *list.Element
	goesOn chan struct{} // closed when the caller may go on
}

func (f *fifo) enter() caller {
	goesOn := make(chan struct{})
	return caller{f.callers.PushBack(goesOn), goesOn}
}

// admit has the first caller go on, and reports whether anybody waited.
func (f *fifo) admit() bool {
	first := f.callers.Front()
	if first != nil {
		close(f.callers.Remove(first).(chan struct{}))
	}
	return first != nil
}

// any reports whether anybody waits.
func (f *fifo) any() bool { return f.callers.Len() > 0 }

// leave is for a caller who waits no longer. It reports whether the caller was admitted in the same moment.
func (f *fifo) leave(c caller) (admitted bool) {
	select {
	case <-c.goesOn:
		return true
	default:
		f.callers.Remove(c.at)
		return false
	}
}

// await waits until the caller goes on, and reports whether that came before the end of ctx.
func (c caller) await(ctx context.Context) bool {
	select {
	case <-c.goesOn:
		return true
	case <-ctx.Done():
		return false
	}
}
