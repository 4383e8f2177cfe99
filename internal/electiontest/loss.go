package electiontest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

// kills: the leader is cut off for good, over and over. To the service it is dead; it goes on to write, though, for as
// long as its lease lets it, so that a lease that ends too late would be seen.
func (s *scene) kills() {
	const elections = 20
	vacancies := s.lose(elections, 5, func(e *election, leader *candidate) { leader.client.Cut() }, true)
	v := s.report(vacancies)
	require.GreaterOrEqual(s, v.losses, 100)
	require.GreaterOrEqual(s, v.stale, v.losses, "each of them has tried")
	require.Empty(s, v.doubled, "they believed that they lead when others did")
	require.Empty(s, v.overlaps, "they were elected while others believed that they lead")
}

// sessionLosses: the service ends the leader's session while it is well, over and over. Then others lead at once, and
// the leader is not told until it asks: until then the resource's fence is all that there is. It asks within its TTL,
// for a lease that is not renewed ends by the clock.
func (s *scene) sessionLosses() {
	const elections = 10
	vacancies := s.lose(elections, 5, func(e *election, leader *candidate) { leader.client.Expire(e) }, false)
	v := s.report(vacancies)
	require.GreaterOrEqual(s, v.losses, 50)
	s.Logf("refused while the lease was held, for all that the leader knew: %d, up to %v after the session had ended",
		len(v.doubled), v.believed.Round(time.Millisecond))
	require.LessOrEqual(s, v.believed, s.TTL)
}

// A toll is what elections have cost.
type toll struct {
	verdict
	losses    int
	vacancies []time.Duration // from the loss until the next leader's first write
	overlaps  []string        // terms that began while another leader's lease was held
	believed  time.Duration   // from the loss until the last write of a leader that still believed to lead
}

// lose takes the leader away from each of many elections at once, so many times, and stands another candidate in
// for each that does not come back.
func (s *scene) lose(
	elections, usual int, take func(*election, *candidate), forGood bool,
) []toll {
	observers := s.Open(s, s.TTL)
	tolls := make([]toll, elections)
	var group errgroup.Group
	for i := range elections {
		group.Go(func() (err error) {
			e := s.newElection(3, observers)
			tolls[i], err = e.lose(s.rounds(usual), take, forGood)
			return err
		})
	}
	require.NoError(s, group.Wait())
	return tolls
}

func (e *election) lose(rounds int, take func(*election, *candidate), forGood bool) (t toll, err error) {
	var gone sync.WaitGroup
	defer gone.Wait()
	leader, err := e.resource.after(e.ctx, 0)
	if err != nil {
		return t, err
	}
	lost := map[farsync.Token]time.Time{}
	for range rounds {
		c := e.candidates[leader.name]
		if forGood {
			e.stand()
		}
		at := time.Now()
		take(e, c)
		lost[leader.token] = time.Now()
		next, err := e.resource.after(e.ctx, leader.token)
		if err != nil {
			return t, e.explain(err, leader)
		}
		t.losses++
		t.vacancies = append(t.vacancies, next.first.Sub(at))
		if forGood {
			delete(e.candidates, c.name)
			gone.Go(func() {
				// It has to find out, to write and to be refused, before it is stopped.
				select {
				case <-c.refused:
				case <-e.ctx.Done():
				}
				_ = e.stop(c)
			})
		}
		leader = next
	}
	if err := e.observer.seesLeader(e.ctx, farsync.NewElection(e.candidates[leader.name].client.Store, e.path)); err != nil {
		return t, err
	}
	gone.Wait()
	if err := e.stopAll(); err != nil {
		return t, err
	}
	t.verdict, t.overlaps = e.resource.verdict(), e.section.Overlaps()
	for _, d := range t.doubled {
		t.believed = max(t.believed, d.at.Sub(lost[d.token]))
	}
	return t, e.observer.seesNobody(e.ctx)
}

// explain adds to an error what there is to see.
func (e *election) explain(err error, last term) error {
	list, _, _ := recipe.Queue{Store: beneath.Store(e.candidates[last.name].client.Store), Path: e.path}.List(e.ctx, 0)
	var queue []string
	for _, entry := range list {
		queue = append(queue, fmt.Sprintf("%s, revision %d", entry.Value, entry.Revision))
	}
	for _, c := range e.candidates {
		select {
		case <-c.done:
			err = errors.Join(err, c.err)
		default:
		}
	}
	return fmt.Errorf("%w; %s led last, since %v; the queue is %q", err, last.name, last.first.Format(time.StampMicro), queue)
}

// report adds up what elections have cost, and demands what must be so in all of them.
func (s *scene) report(tolls []toll) toll {
	s.Helper()
	var sum toll
	for _, t := range tolls {
		sum.losses += t.losses
		sum.terms += t.terms
		sum.stale += t.stale
		sum.staleAccepted += t.staleAccepted
		sum.doubled = append(sum.doubled, t.doubled...)
		sum.vacancies = append(sum.vacancies, t.vacancies...)
		sum.overlaps = append(sum.overlaps, t.overlaps...)
		sum.believed = max(sum.believed, t.believed)
	}
	slices.Sort(sum.vacancies)
	s.Logf("%d elections, TTL %v: %d losses, %d terms, %d stale writes tried, %d accepted; without a leader: median %v, longest %v",
		len(tolls), s.TTL, sum.losses, sum.terms, sum.stale, sum.staleAccepted,
		sum.vacancies[len(sum.vacancies)/2].Round(time.Millisecond), slices.Max(sum.vacancies).Round(time.Millisecond))
	require.Zero(s, sum.staleAccepted)
	require.Positive(s, sum.stale, "no write was tried")
	return sum
}
