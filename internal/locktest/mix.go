package locktest

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// mixVariable says for how long the random mixes go on: longer than by default for nights.
const mixVariable = "FARSYNC_MIX_FOR"

func (s *scene) mixFor() time.Duration {
	said := os.Getenv(mixVariable)
	if said == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(said)
	require.NoError(s, err, mixVariable)
	return d
}

// A ledger is written by the holders of a read/write lock when they are granted it, and detects what their tokens must
// not be.
type ledger struct {
	mu     sync.Mutex
	token  farsync.Token // of the last writer
	read   int64         // the highest revision of a reader's grant
	reads  int
	writes int
	turns  int // how many of them cost no place in the queue
}

// enter returns what is wrong with a lease that has just been got.
func (l *ledger) enter(lease *farsync.Lease, write bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	token := lease.Token()
	turn := int(token & 0xff)
	if turn > 0 {
		l.turns++
	}
	if write {
		l.writes++
		last := l.token
		l.token = max(token, last)
		switch {
		case token <= last:
			return "a writer's token went back"
		case turn == 0 && token.Revision() < l.read:
			return "a writer was passed over by a reader that came later"
		}
		return ""
	}
	l.reads++
	// Readers that share a grant may pass a writer, the first on it may not.
	passed := turn == 0 && token.Revision() < l.token.Revision()
	if turn == 0 {
		l.read = max(l.read, token.Revision())
	}
	if passed {
		return "a reader was passed over by a writer that came later"
	}
	return ""
}

var mixRows = []row{
	{"RWMix", "what each rule keeps by itself they have to keep together, under a load", func(s *scene) {
		s.mix(false)
	}},
	{"RWMixOfStrangers", "callers who share no line have nothing but the queue", func(s *scene) {
		l := s.mix(true)
		require.Zero(s, l.turns)
	}},
}

// mix has 64 contenders lock at random, one in ten of them to write: each with an entry of its own, or in the lines of four clients.
func (s *scene) mix(strangers bool) *ledger {
	const clients, contenders = 4, 64
	var l ledger
	section := NewSection(s, contenders)
	var all sync.WaitGroup
	d := s.mixFor()
	ctx, cancel := context.WithTimeout(context.Background(), d+soon)
	defer cancel()
	var stores []*farsync.Store
	for range clients {
		stores = append(stores, s.client())
	}
	until := time.Now().Add(d)
	for i := range contenders {
		rw := s.rw(stores[i%clients])
		read, write := rw.RLock, rw.Lock
		if strangers {
			read, write = apart(read), apart(write)
		}
		all.Go(func() {
			for time.Now().Before(until) {
				writes, lock, units := rand.N(10) == 0, read, int64(1)
				if writes {
					lock, units = write, contenders
				}
				lease, err := lock(ctx)
				if err != nil {
					s.Error(err)
					return
				}
				if wrong := l.enter(lease, writes); wrong != "" {
					s.Errorf("%s: token %d", wrong, lease.Token())
				}
				section.Visit(ctx, lease, units)
				if err := giveBack(lease); err != nil {
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	_, most := section.Visits()
	s.Logf("%d reads and %d writes, %d of them as further turns on a grant; %d of %d shares were held at once",
		l.reads, l.writes, l.turns, most, contenders)
	require.NotZero(s, l.writes)
	s.until(s.client(), 0)
	return &l
}
