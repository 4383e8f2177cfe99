package compattest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/pause"
)

const (
	contenders = 3  // of each process
	rounds     = 16 // of each contender
)

// A mix is a contention of both versions.
type mix struct {
	name string
	run  func(t *testing.T, path string, all []*process)
}

var mixes = []mix{
	{"mutex", func(t *testing.T, path string, all []*process) {
		section, tokens := locktest.NewSection(t, 1), &ledger{}
		contend(t, all, func(p contestant, contender, _ int) error {
			lease := p.begin(Move{Do: "lock", Path: path, Value: value(contender)})
			if err := lease.err(); err != nil {
				return err
			}
			stay(t, section, 1, func() { tokens.enter(lease) })
			return lease.also("release").err()
		})
		tokens.report(t, len(all)*contenders*rounds)
	}},
	{"rwmutex", func(t *testing.T, path string, all []*process) {
		room := int64(len(all) * contenders)
		section, tokens := locktest.NewSection(t, room), &ledger{}
		contend(t, all, func(p contestant, contender, n int) error {
			move, units, enter := "read", int64(1), func(*turn) {}
			if n%4 == 0 {
				move, units, enter = "write", room, tokens.enter
			}
			lease := p.begin(Move{Do: move, Path: path, Value: value(contender)})
			if err := lease.err(); err != nil {
				return err
			}
			stay(t, section, units, func() { enter(lease) })
			if n%8 == 0 {
				if err := lease.also("downgrade").err(); err != nil {
					return err
				}
				stay(t, section, 1, nil)
			}
			return lease.also("release").err()
		})
		tokens.report(t, len(all)*contenders*rounds/4)
	}},
	{"semaphore", func(t *testing.T, path string, all []*process) {
		const size = 4
		section := locktest.NewSection(t, size)
		contend(t, all, func(p contestant, contender, n int) error {
			units := int64((contender+n)%3 + 1)
			lease := p.begin(Move{Do: "acquire", Path: path, Size: size, Units: units})
			if err := lease.err(); err != nil {
				return err
			}
			stay(t, section, units, nil)
			return lease.also("release").err()
		})
		_, most := section.Visits()
		t.Logf("%d of %d units were held at once", most, size)
	}},
}

// value names the value of a primitive that a contender uses. The first of a process has one of its own, the others take
// turns on theirs.
func value(contender int) string {
	if contender == 0 {
		return "its own"
	}
	return ""
}

// contend has the contenders of all processes make their rounds at the same time.
func contend(t *testing.T, all []*process, round func(p contestant, contender, n int) error) {
	var group errgroup.Group
	for _, p := range all {
		for i := range contenders {
			group.Go(func() error {
				for n := range rounds {
					if err := round(p.in(t), i, n); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	require.NoError(t, group.Wait())
}

// stay stays in the section for a millisecond at least. The section is left before the process is told to go on, so it
// is not in there for longer than it holds.
func stay(t *testing.T, section *locktest.Section, units int64, inside func()) {
	defer section.Enter(nil, units)()
	if inside != nil {
		inside()
	}
	_ = pause.For(t.Context(), time.Millisecond)
}

// A ledger has the exclusive leases, in the order in which they were held.
type ledger struct {
	mu      sync.Mutex
	tokens  []int64
	holders []string
}

func (l *ledger) enter(lease *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens, l.holders = append(l.tokens, lease.token), append(l.holders, lease.name)
}

// report makes sure that there are so many, that their tokens rise, and that the versions followed one another.
func (l *ledger) report(t *testing.T, n int) {
	require.Len(t, l.tokens, n)
	require.True(t, slices.IsSorted(l.tokens), "tokens that do not rise: %v", l.tokens)
	require.Len(t, slices.Compact(slices.Clone(l.tokens)), n, "a token that comes twice: %v", l.tokens)
	turns, changes := 0, 0
	for i, token := range l.tokens {
		if token&0xff > 0 {
			turns++
		}
		if i > 0 && l.holders[i][:3] != l.holders[i-1][:3] {
			changes++
		}
	}
	t.Logf("%d exclusive holds, %d of them as further turns; %d times one version followed the other", n, turns, changes)
	require.NotZero(t, changes)
}
