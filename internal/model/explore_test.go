package model

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A counter goes up by one or two, modulo a number if there is one.
type counter struct {
	modulo  int
	most    int
	wrongAt int
	restBad bool
}

func (c *counter) Start() int { return 0 }

func (c *counter) Steps(s int, yield func(Step[int])) {
	for by := 1; by <= 2; by++ {
		next := s + by
		if c.modulo > 0 {
			next %= c.modulo
		} else if next > c.most {
			continue
		}
		yield(Step[int]{Who: "it", What: "goes up", Next: next, Due: by == 1})
	}
}

func (c *counter) Check(s int) error {
	if c.wrongAt > 0 && s == c.wrongAt {
		return errors.New("wrong")
	}
	return nil
}

func (c *counter) Rest(int) error {
	if c.restBad {
		return errors.New("not where it should rest")
	}
	return nil
}

func TestExploreVisitsAll(t *testing.T) {
	r := Explore(&counter{most: 1000}, 0)
	require.NoError(t, r.Violated)
	require.True(t, r.Complete)
	require.Equal(t, 1001, r.States)
	require.Equal(t, 1999, r.Steps)
	require.Equal(t, 500, r.Depth)
	require.False(t, Explore(&counter{most: 1000}, 10).Complete)
}

func TestExploreFindsTheShortestTrace(t *testing.T) {
	r := Explore(&counter{most: 1000, wrongAt: 101}, 0)
	require.EqualError(t, r.Violated, "wrong")
	require.Len(t, r.Trace, 51)
	require.False(t, r.Complete)
}

func TestExploreLooksAtStatesAtRest(t *testing.T) {
	r := Explore(&counter{most: 7, restBad: true}, 0)
	require.EqualError(t, r.Violated, "not where it should rest")
	require.Len(t, r.Trace, 4)
}

func TestExploreFindsCircles(t *testing.T) {
	require.Error(t, Explore(&counter{modulo: 7}, 0).Violated)
}
