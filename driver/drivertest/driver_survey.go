package drivertest

import (
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// These are for drivers that can Survey.
var surveyCases = []conformance{
	{"SurveyPages", "an operator who looks for a stuck lock must not be shown half of one, or miss one", func(s *scene) {
		a, b := s.surveyors()
		want := map[string][]string{}
		var paths []string
		// In the order of the paths, and not of the paths of their entries.
		for i, name := range []string{"a", "a-b", "a/b", "a/n", "b", "c", "d"} {
			queue := s.queue + "/" + name
			paths = append(paths, queue)
			for range i%3 + 1 {
				c := []*client{a, b}[i%2]
				e, _ := c.create(c.entry(queue, driver.Exclusive))
				want[queue] = append(want[queue], e.ID)
			}
		}
		other, _ := a.create(a.entry(s.queue+"-other", driver.Exclusive))
		for _, limit := range []int{1, 2, 4, 100} {
			got := map[string][]string{}
			var order []string
			for after := ""; ; {
				v, err := b.Survey(s.ctx(), s.queue+"/", after, limit)
				require.NoError(s, err)
				page := v.Entries
				if len(page) == 0 {
					break
				}
				if after = page[len(page)-1].Queue; after != paths[len(paths)-1] {
					require.GreaterOrEqual(s, len(page), limit)
				}
				for _, e := range page {
					if len(got[e.Queue]) == 0 {
						order = append(order, e.Queue)
					}
					got[e.Queue] = append(got[e.Queue], e.ID)
				}
			}
			require.Equal(s, want, got, "limit %d", limit)
			require.Equal(s, paths, order)
		}
		a.remove(other)
	}},
	{"SurveyCrowd", "a queue may be longer than what a service answers at once", func(s *scene) {
		a, b := s.surveyors()
		var want []string
		for range 600 {
			v, err := a.Create(s.ctx(), a.entry(s.queue, driver.Candidate), 0)
			require.NoError(s, err)
			want = append(want, v.Self.ID)
		}
		v, err := b.Survey(s.ctx(), s.queue, "", 1)
		require.NoError(s, err)
		require.Equal(s, want, ids(v.Entries))
	}},
	{"SurveyIsOfEntries", "a survey that shows queues without users is a list of the past", func(s *scene) {
		a, b := s.surveyors()
		a.remove(a.join(driver.Exclusive))
		a.set(s.queue, "5 5", 0)
		e, _ := a.create(a.entry(s.queue+"/b", driver.Write))
		v, err := b.Survey(s.ctx(), s.queue, "", 10)
		require.NoError(s, err)
		require.Equal(s, []string{e.ID}, ids(v.Entries))
		require.Equal(s, driver.Write, v.Entries[0].Kind)
		require.Equal(s, s.queue+"/b", v.Entries[0].Queue)
		v, err = b.Survey(s.ctx(), s.queue, s.queue+"/b", 10)
		require.NoError(s, err)
		require.Empty(s, v.Entries)
	}},
	{"SurveyShowsStray", "who looks at all queues is not told what who looks at one is told: what blocks it for ever", func(s *scene) {
		if s.Stray == nil {
			s.Skip("the service has no such entries")
		}
		a, b := s.surveyors()
		first := a.join(driver.Exclusive)
		stray := s.Stray(s.T, s.queue)
		v, err := b.Survey(s.ctx(), s.queue, "", 10)
		require.NoError(s, err)
		require.Equal(s, []string{first.ID, stray.ID}, ids(v.Entries))
		require.Empty(s, v.Entries[1].Session)
		s.Delete(s.T, stray)
		a.remove(first)
	}},
}

// surveyors returns two clients, or skips the case.
func (s *scene) surveyors() (a, b *client) {
	s.Helper()
	a, b = s.open(), s.open()
	if _, err := a.Survey(s.ctx(), s.queue, "", 1); errors.Is(err, errors.ErrUnsupported) {
		s.Skip("the driver cannot survey")
	}
	return a, b
}
