package recipe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A carrying is a carrier of a test.
type carrying struct {
	carries func(ctx context.Context)
	uses    int
}

func (c *carrying) carry(ctx context.Context, _ *grant, _ time.Time) { c.carries(ctx) }

func (c *carrying) use(n int) { c.uses += n }

// A reader gets a turn on a grant whose session ends at that moment, while another keeps its lease although it was told.
func TestTurnOnALostGrantIsNotWaitedFor(t *testing.T) {
	asleep(t, func(_ *sleeper, in *session) {
		s := &Store{}
		s.life, s.shut = context.WithCancelCause(context.Background())
		carried := 0
		c := new(cohort)
		c.init(s, true, &carrying{carries: func(ctx context.Context) {
			carried++
			<-ctx.Done()
		}})
		gr := c.add(joining)
		p := &place{in: in}
		gr.since, gr.phase, gr.holds = time.Now(), open, 1
		gr.place.Store(p)
		c.open = gr
		late, w := c.enter(context.Background(), "")
		require.Nil(t, w, "readers do not wait for one another")
		require.Same(t, gr, late.grant)
		in.fail(ErrClosed)
		c.back(t.Context(), gr)
		synctest.Wait()
		require.Equal(t, 1, carried, "another entry stands for the line, though the grant is held")
		s.shut(ErrClosed)
		s.tasks.Wait()
	})
}
