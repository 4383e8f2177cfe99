package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// The bounds of a load.
const (
	leastOfPatient = 0.8                   // of the grants of patient callers: for callers who share Stores
	leastApart     = 0.5                   // of the grants of the stock lock, and from 250 ms on of patient callers: for callers with a Store each
	leastInACrowd  = 0.5                   // of the rate at which 64 callers by as many Stores take the lock again and again: for a crowd
	mostLate       = 20 * time.Millisecond // how long after the end of its ctx a call may return
	lateCalls      = 0.01                  // so many of the calls may be later: a busy machine is late for anybody
	mostGoroutines = 4                     // for each caller, the caller included, and for each client that has a caller who waits
	mostFree       = 2 * time.Second       // after the last caller has left
	newcomer       = time.Minute           // how long a newcomer waits for the lock then
	granularity    = 64                    // goroutines that come and go whatever the callers do
)

// An account is what callers have got from the locks of one side.
type account struct {
	callers  int
	clients  int
	grants   int64         // locks that were got, or in a crowd callers who were served
	took     time.Duration // in this time
	gaveUp   int64         // calls that ended with their ctx
	late     int64         // calls that returned later than mostLate after the end of their ctx
	worst    time.Duration // by how much the latest of all was
	errors   map[string]int64
	peak     int           // goroutines at most, without the goroutines from before the callers
	free     time.Duration // how long a newcomer waited after the last caller had left; negative: in vain
	sessions int           // that were lost
	leases   int           // on other paths, that were lost
}

func (a account) rate() float64 {
	if a.took <= 0 {
		return 0
	}
	return float64(a.grants) / a.took.Seconds()
}

// called counts a call that has returned, of a caller whose ctx was to end then; the zero time if it had no end.
func (a *account) called(err error, deadline time.Time) {
	if late := time.Since(deadline); !deadline.IsZero() && late > 0 {
		a.worst = max(a.worst, late)
		if late > mostLate {
			a.late++
		}
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) && !deadline.IsZero() {
		a.gaveUp++
	}
	a.failed(err)
}

// failed counts an error by its kind. That a caller gave up is none.
func (a *account) failed(err error) {
	var kind string
	switch {
	case err == nil:
		return
	case errors.Is(err, farsync.ErrLost):
		kind = "lost"
	case errors.Is(err, farsync.ErrUnavailable):
		kind = "unavailable"
	case errors.Is(err, context.DeadlineExceeded):
		return
	default:
		const most = 60
		kind, _, _ = strings.Cut(err.Error(), "\n")
		kind = strings.ReplaceAll(kind[:min(len(kind), most)], "|", "/")
	}
	a.count(kind, 1)
}

// count adds so many errors of a kind.
func (a *account) count(kind string, n int64) {
	if a.errors == nil {
		a.errors = map[string]int64{}
	}
	a.errors[kind] += n
}

// add adds what other callers have got.
func (a *account) add(others []account) {
	for _, b := range others {
		a.grants += b.grants
		a.gaveUp += b.gaveUp
		a.late += b.late
		a.worst = max(a.worst, b.worst)
		for kind, n := range b.errors {
			a.count(kind, n)
		}
	}
}

// countGoroutines counts how many goroutines there are at most, without the goroutines of now, until the returned function is called.
func countGoroutines(ctx context.Context) func() int {
	before, peak := runtime.NumGoroutine(), 0
	ctx, stop := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() {
		for pause.For(ctx, 20*time.Millisecond) == nil {
			peak = max(peak, runtime.NumGoroutine()-before-1)
		}
	})
	return func() int {
		stop()
		counting.Wait()
		return peak
	}
}

// An outcome is what one load has shown.
type outcome struct {
	name      string
	served    bool // every caller is to be served; otherwise grants count
	ours      account
	stock     account // without callers if the stock lock was not asked
	asked     string  // the stock lock, or why it was not asked
	least     int64   // grants, at least
	leastRate float64 // grants a second, at least
}

// misses returns which bounds were missed.
func (o outcome) misses() (list []string) {
	miss := func(is bool, format string, values ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, values...))
		}
	}
	a := o.ours
	miss(a.grants < o.least, "%d of at least %d", a.grants, o.least)
	miss(a.rate() < o.leastRate, "%.0f a second of at least %.0f", a.rate(), o.leastRate)
	miss(float64(a.late) > lateCalls*float64(a.gaveUp+a.grants), "%d calls late, by up to %v", a.late, a.worst.Round(time.Millisecond))
	miss(a.peak > mostGoroutines*(a.callers+a.clients)+granularity, "%.1f goroutines a caller", perCaller(a))
	miss(a.free < 0, "not free after %v", newcomer)
	miss(a.free > mostFree, "free after %.1f s", a.free.Seconds())
	miss(a.sessions > 0, "sessions lost")
	miss(a.leases > 0, "other leases lost")
	return list
}

func perCaller(a account) float64 { return float64(a.peak) / float64(max(a.callers, 1)) }

// got says what a side has got.
func (o outcome) got(a account) string {
	if o.served {
		return fmt.Sprintf("%d of %d in %.1f s", a.grants, a.callers, a.took.Seconds())
	}
	return fmt.Sprint(a.grants)
}

// cells are the columns of the table.
func (o outcome) cells() []string {
	stock, ratio := o.asked, ""
	if o.stock.callers > 0 {
		stock = o.got(o.stock) + ", " + o.asked
		if o.stock.rate() > 0 {
			ratio = fmt.Sprintf("%.2f", o.ours.rate()/o.stock.rate())
		}
	}
	var kinds []string
	for kind, n := range o.ours.errors {
		kinds = append(kinds, fmt.Sprint(n, " ", kind))
	}
	slices.Sort(kinds)
	verdict := "green"
	if misses := o.misses(); len(misses) > 0 {
		verdict = "**red**: " + strings.Join(misses, ", ")
	}
	free := fmt.Sprintf("%.2f", o.ours.free.Seconds())
	if o.ours.free < 0 {
		free = "never"
	}
	return []string{
		o.name, o.got(o.ours), stock, ratio, fmt.Sprint(o.ours.sessions, ", ", o.ours.leases), fmt.Sprint(o.ours.gaveUp), fmt.Sprint(o.ours.late),
		fmt.Sprintf("%.1f", perCaller(o.ours)), free, strings.Join(kinds, ", "), verdict,
	}
}

func (o outcome) line() string { return strings.Join(o.cells(), " | ") }

// loadTable is a table of outcomes, a line each.
func loadTable(store string, outcomes []outcome) string {
	if len(outcomes) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n%s, at a load average of %.0f\n\n", store, machine(), loadAverage())
	b.WriteString("| load | farsync | stock lock | × | sessions, other leases lost | gave up | late | goroutines a caller | free after, s | errors | |\n")
	b.WriteString("|---|---|---|--:|--:|--:|--:|--:|--:|---|---|\n")
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s |\n", o.line())
	}
	return b.String()
}
