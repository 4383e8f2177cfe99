package live

import (
	"cmp"
	"context"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// callers are the calls of this process that hold or wait.
type callers struct {
	mu   sync.Mutex
	all  map[*call]struct{}
	held map[lease][]*call // the calls that hold a lease: several where Stores of one name have granted the same
}

// A call is a call of a lock that was begun. Its stack and its lock do not change. Its other fields are guarded by the
// mu of callers.
type call struct {
	at    gone // its Store is named by the option Name
	stack stack
	held  bool
	since time.Time // when it began to wait, or to hold
}

// A stack has the newest calls first, and zeros at the end.
type stack [32]uintptr

// A lease is what a call has acquired.
type lease struct {
	at    gone
	kind  farsync.Kind
	token farsync.Token
}

// A callerJSON are the calls of this process that hold or wait for a lock at one place of the program.
type callerJSON struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Held     bool   `json:"held"`
	Count    int    `json:"count"`
	Since    int64  `json:"since"` // of the first
}

// mostCallers is how many places are shown of a lock.
const mostCallers = 20

// Callers returns a Trace for the option of that name of the Stores of this process. With it the View shows which
// functions of the program hold and wait for each lock in this process, also the goroutines that wait behind others of
// it, by their files and lines. Stores are told apart by their option Name: the calls of Stores that have the same
// name, or no name, are shown for all of them.
//
// Each call that acquires has its stack noted for that, which takes some microseconds and half a kilobyte.
func (v *View) Callers() *farsync.Trace {
	c := &v.callers
	return &farsync.Trace{Acquire: c.begin, Ended: c.end}
}

func (c *callers) begin(ctx context.Context, w farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
	one := &call{at: gone{w.Store, w.Path}, since: time.Now()}
	runtime.Callers(2, one.stack[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[one] = struct{}{}
	return ctx, func(g farsync.TraceResult) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if g.Err != nil {
			delete(c.all, one)
			return
		}
		one.held, one.since = true, time.Now()
		of := lease{one.at, w.Kind, g.Token}
		c.held[of] = append(c.held[of], one)
	}
}

// end is called once for what was acquired, and not before begin's function has returned.
func (c *callers) end(e farsync.TraceEnd) {
	of := lease{gone{e.Store, e.Path}, e.Kind, e.Token}
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.held[of]
	if len(calls) == 0 {
		return
	}
	delete(c.all, calls[0])
	if c.held[of] = calls[1:]; len(calls) == 1 {
		delete(c.held, of)
	}
}

// places returns what there is of each lock: holders first, then the waiters who have waited for longest.
func (c *callers) places() map[gone][]callerJSON {
	type place struct {
		at    gone
		stack stack
		held  bool
	}
	type calls struct {
		count int
		since time.Time
	}
	found := map[place]calls{}
	c.mu.Lock()
	for one := range c.all {
		p := place{one.at, one.stack, one.held}
		n := found[p]
		if n.count++; n.count == 1 || one.since.Before(n.since) {
			n.since = one.since
		}
		found[p] = n
	}
	c.mu.Unlock()
	all := map[gone][]callerJSON{}
	for p, n := range found {
		one := callerJSON{Held: p.held, Count: n.count, Since: milli(n.since)}
		one.Function, one.File = p.stack.caller()
		list := all[p.at]
		// Another way to the same place is no other place.
		same := slices.IndexFunc(list, func(j callerJSON) bool {
			return j.Function == one.Function && j.File == one.File && j.Held == one.Held
		})
		if same >= 0 {
			list[same].Count += one.Count
			list[same].Since = min(list[same].Since, one.Since)
			continue
		}
		all[p.at] = append(list, one)
	}
	for at, list := range all {
		slices.SortFunc(list, func(a, b callerJSON) int {
			if a.Held != b.Held {
				if a.Held {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.File, b.File), cmp.Compare(a.Function, b.Function))
		})
		all[at] = list[:min(len(list), mostCallers)]
	}
	return all
}

const module = "github.com/farsync/farsync"

// caller returns the function that has called farsync, without the path of its package, and its file, with its folder,
// and line. A goroutine of farsync's own has begun in farsync.
func (s stack) caller() (function, file string) {
	pcs := s[:]
	if end := slices.Index(pcs, 0); end >= 0 {
		pcs = pcs[:end]
	}
	frames := runtime.CallersFrames(pcs)
	for more := len(pcs) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, "runtime.") {
			break
		}
		function = f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		file = path.Join(path.Base(path.Dir(f.File)), path.Base(f.File)) + ":" + strconv.Itoa(f.Line)
		if !strings.HasPrefix(f.Function, module+".") && !strings.HasPrefix(f.Function, module+"/recipe.") {
			break
		}
	}
	return function, file
}
