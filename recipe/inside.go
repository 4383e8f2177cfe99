package recipe

import (
	"sync"

	"github.com/farsync/farsync/internal/goroutine"
)

// Insiders are the goroutines of a Store that call a function of its Trace at the moment. A Close by one of them cannot wait for what the Store has started: it would wait
// for itself.
type insiders struct {
	mu      sync.Mutex
	numbers map[uint64]bool
}

// call calls a function of the user in a goroutine of the Store.
func (i *insiders) call(f func()) {
	n, ok := goroutine.Number()
	if ok && i.enter(n) {
		defer i.leave(n)
	}
	f()
}

// enter notes a goroutine, and reports false if it was noted before.
func (i *insiders) enter(n uint64) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.numbers[n] {
		return false
	}
	if i.numbers == nil {
		i.numbers = map[uint64]bool{}
	}
	i.numbers[n] = true
	return true
}

func (i *insiders) leave(n uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.numbers, n)
}

// has reports whether the caller is one of them.
func (i *insiders) has() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.numbers) == 0 {
		return false
	}
	n, ok := goroutine.Number()
	return ok && i.numbers[n]
}
