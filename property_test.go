//nolint:forbidigo // in a bubble
package farsync_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

// A step is one thing that happens.
type step struct {
	what   string
	client int
	which  int   // of those that are there, modulo their number
	units  int64 // or the size
	pause  time.Duration
}

func (s step) String() string {
	return fmt.Sprintf("%s client %d which %d units %d, then %v", s.what, s.client, s.which, s.units, s.pause)
}

// drawSteps draws what happens. The pauses are for everything to settle, for turns to be handed on, or none at all.
func drawSteps(t *rapid.T, what ...string) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			what:   rapid.SampledFrom(what).Draw(t, "what"),
			client: rapid.IntRange(0, playClients-1).Draw(t, "client"),
			which:  rapid.IntRange(0, 9).Draw(t, "which"),
			units:  rapid.Int64Range(1, playUnits).Draw(t, "units"),
			pause:  rapid.SampledFrom([]time.Duration{0, time.Millisecond, 30 * time.Millisecond, playSettles}).Draw(t, "pause"),
		}
	}), 5, 60).Draw(t, "steps")
}

func drawLatency(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Millisecond}).Draw(t, "latency")
}

const (
	playClients = 3
	playUnits   = 5
	playPath    = "/play"
	// playSettles is longer than turns are waited for, and than it takes to join again.
	playSettles = 3 * time.Second
)

// An attempt is one call that acquires, and the lease it got.
type attempt struct {
	client int
	kind   driver.Kind
	units  int64
	cancel context.CancelFunc
	done   chan struct{}
	lease  *farsync.Lease
	err    error
}

func (a *attempt) returned() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// A play is clients of one lock in a bubble, and what was tried.
type play struct {
	service  *farsynctest.Mem
	stores   []*farsync.Store
	attempts []*attempt
}

// playSteps plays in a bubble: act does what a step says that is not common to all, and check looks for what must not
// be; after a long pause everything has settled.
func playSteps(
	t *testing.T, latency time.Duration, steps []step, act func(*play, step), check func(p *play, settled bool) string,
) (wrong string) {
	synctest.Test(t, func(*testing.T) {
		p := &play{service: farsynctest.NewMem()}
		p.service.SetLatency(latency)
		for range playClients {
			p.stores = append(p.stores, p.service.Open(nil))
		}
		for _, s := range steps {
			switch s.what {
			case "release":
				if a := p.pick(s.which, func(a *attempt) bool { return a.returned() && a.lease != nil }); a != nil {
					p.release(a)
				}
			case "cancel":
				if a := p.pick(s.which, func(a *attempt) bool { return !a.returned() }); a != nil {
					a.cancel()
				}
			case "lose a request":
				p.lose(farsynctest.LoseRequest)
			case "lose a reply":
				p.lose(farsynctest.LoseReply)
			case "expire":
				p.service.Expire(p.stores[s.client])
			default:
				act(p, s)
			}
			synctest.Wait()
			if wrong = check(p, false); wrong == "" && s.pause > 0 {
				time.Sleep(s.pause)
				synctest.Wait()
				wrong = check(p, s.pause == playSettles)
			}
			if wrong != "" {
				break
			}
		}
		// Everybody goes home: then nothing is left.
		for len(p.attempts) > 0 {
			a := p.attempts[0]
			if !a.returned() && wrong != "" {
				a.cancel()
			}
			select {
			case <-a.done:
			case <-time.After(time.Minute):
				// It waits for one behind it in this list.
				p.attempts = append(p.attempts[1:], a)
				continue
			}
			if a.lease != nil {
				p.release(a)
			} else {
				p.attempts = p.attempts[1:]
			}
		}
		time.Sleep(playSettles)
		if left := len(p.service.Entries(playPath)); left > 0 && wrong == "" {
			wrong = fmt.Sprintf("%d entries are left when all have gone", left)
		}
		for _, s := range p.stores {
			if err := s.Close(); err != nil && wrong == "" {
				wrong = err.Error()
			}
		}
		time.Sleep(time.Minute) // for a session that was just being opened
		if entries, sessions, watches := p.service.Left(); entries+sessions+watches > 0 && wrong == "" {
			wrong = fmt.Sprintf("left are %d entries, %d sessions, %d watches", entries, sessions, watches)
		}
	})
	return wrong
}

// lose has one of the next requests that are not for a session's upkeep go wrong.
func (p *play) lose(fault farsynctest.Fault) {
	var done atomic.Bool
	p.service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
		if op.Queue == "" || done.Swap(true) {
			return farsynctest.None
		}
		return fault
	})
}

// begin begins an attempt.
func (p *play) begin(
	s step, kind driver.Kind, units int64, lock func(context.Context) (*farsync.Lease, error),
) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{client: s.client, kind: kind, units: units, cancel: cancel, done: make(chan struct{})}
	p.attempts = append(p.attempts, a)
	go func() {
		defer close(a.done)
		a.lease, a.err = lock(ctx)
	}()
}

func (p *play) pick(which int, of func(*attempt) bool) *attempt {
	var list []*attempt
	for _, a := range p.attempts {
		if of(a) {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[which%len(list)]
}

func (p *play) release(a *attempt) {
	_ = a.lease.Release()
	a.cancel()
	var rest []*attempt
	for _, other := range p.attempts {
		if other != a {
			rest = append(rest, other)
		}
	}
	p.attempts = rest
}

// holding returns the attempts that hold. Not those whose entry has been taken away early with its session: its holder
// and all that share it cannot know of that before they are told.
func (p *play) holding() []*attempt {
	there := map[int64]bool{}
	for _, e := range p.service.Entries(playPath) {
		there[e.Revision] = true
	}
	var list []*attempt
	for _, a := range p.attempts {
		if a.returned() && a.err == nil && a.lease.Err() == nil && there[a.lease.Token().Revision()] {
			list = append(list, a)
		}
	}
	return list
}

// idle returns what is wrong if an entry that is granted is held by no attempt here: all the others wait for it in vain.
func (p *play) idle(granted func(e driver.Entry, ahead []driver.Entry) bool) string {
	list := p.service.Entries(playPath)
	for i, e := range list {
		if !granted(e, list[:i]) {
			continue
		}
		held := false
		for _, a := range p.attempts {
			held = held || a.returned() && a.lease != nil && a.lease.Token().Revision() == e.Revision
		}
		if !held {
			return fmt.Sprintf("entry %s is granted, and no attempt holds it", e.ID)
		}
	}
	return ""
}

func TestRWMutexKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt, "lock", "lock", "read", "read", "try", "try read", "release", "release", "cancel", "downgrade", "expire",
			"lose a request", "lose a reply")
		values := map[*play][]*farsync.RWMutex{}
		wrong := playSteps(t, drawLatency(rt), steps, func(p *play, s step) {
			if values[p] == nil {
				for _, store := range p.stores {
					values[p] = append(values[p], farsync.NewRWMutex(store, playPath))
				}
			}
			rw := values[p][s.client]
			switch s.what {
			case "lock":
				p.begin(s, driver.Write, 1, rw.Lock)
			case "read":
				p.begin(s, driver.Read, 1, rw.RLock)
			case "try":
				p.begin(s, driver.Write, 1, rw.TryLock)
			case "try read":
				p.begin(s, driver.Read, 1, rw.TryRLock)
			case "downgrade":
				holding := p.holding()
				a := p.pick(s.which, func(a *attempt) bool { return a.kind == driver.Write && slices.Contains(holding, a) })
				if a == nil {
					return
				}
				if values[p][a.client].Downgrade(context.Background(), a.lease) == nil {
					a.kind = driver.Read
				}
			}
		}, func(p *play, settled bool) string {
			var readers, writers int
			for _, a := range p.holding() {
				if a.kind == driver.Write {
					writers++
				} else {
					readers++
				}
			}
			if writers > 1 || writers == 1 && readers > 0 {
				return fmt.Sprintf("%d writers and %d readers", writers, readers)
			}
			if !settled {
				return ""
			}
			return p.idle(func(e driver.Entry, ahead []driver.Entry) bool {
				for _, other := range ahead {
					if e.Kind == driver.Write || other.Kind == driver.Write {
						return false
					}
				}
				return true
			})
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func TestSemaphoreKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const declared = 3
		steps := drawSteps(rt, "acquire", "acquire", "acquire", "try", "release", "release", "cancel", "resize", "expire",
			"lose a request", "lose a reply")
		// A grant by the size that was may still be on its way when the size is lowered.
		var size, lately, before int64 = declared, declared, 0
		wrong := playSteps(t, drawLatency(rt), steps, func(p *play, s step) {
			sem := farsync.NewSemaphore(p.stores[s.client], playPath, declared)
			switch s.what {
			case "acquire":
				p.begin(s, driver.Permit, s.units, func(ctx context.Context) (*farsync.Lease, error) {
					return sem.Acquire(ctx, s.units)
				})
			case "try":
				p.begin(s, driver.Permit, s.units, func(ctx context.Context) (*farsync.Lease, error) {
					return sem.TryAcquire(ctx, s.units)
				})
			case "resize":
				if sem.Resize(context.Background(), s.units) == nil {
					size, lately = s.units, max(lately, s.units)
				}
			}
		}, func(p *play, settled bool) string {
			var held int64
			for _, a := range p.holding() {
				held += a.units
			}
			defer func() { before = held }()
			if held > max(lately, before) { // what is held above a size that was lowered goes down only
				return fmt.Sprintf("%d units of %d are held, %d were", held, size, before)
			}
			if !settled {
				return ""
			}
			lately = size
			for _, a := range p.attempts {
				if !a.returned() && a.units > size {
					return fmt.Sprintf("one waits for %d units of %d", a.units, size)
				}
			}
			return p.idle(func(e driver.Entry, ahead []driver.Entry) bool {
				units := e.Units
				for _, other := range ahead {
					units += other.Units
				}
				return units <= size
			})
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
