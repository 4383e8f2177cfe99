package drivertest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A driver may leave out all proofs. A proof that it gives has to be true.
var proofCases = []conformance{
	{"ProofShowsEverything", "a waiter that is shown a part of what is ahead is granted too soon", func(s *scene) {
		a, b := s.pair()
		var ahead []driver.Entry
		for range 4 {
			ahead = append(ahead, a.join(driver.Permit))
		}
		e := b.join(driver.Permit)
		for _, i := range []int{3, 0, 1, 2} {
			w := b.watch(e, gone(ahead[i]))
			a.remove(ahead[i])
			w.wakes()
		}
		require.Empty(s, b.all(e))
	}},
	{"ProofShowsItself", "a waiter that has lost its place must not take the lock", func(s *scene) {
		a, b := s.pair()
		for range 10 {
			first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
			w := b.watch(second, gone(first))
			s.Delete(s.T, second)
			a.remove(first)
			got := soon(s, w.done, wallAnswer)
			if got.err == nil {
				require.Nil(s, got.proof, "the entry was gone before the event")
			}
		}
	}},
	{"ProofOfTheNext", "a waiter that is next must not be granted before the holder goes, nor without its own entry", func(s *scene) {
		a, b := s.pair()
		alone := func(e driver.Entry) driver.Target {
			t := gone(e)
			t.Alone = true
			return t
		}
		for range 10 {
			first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
			third := a.join(driver.Exclusive)
			w := b.watch(second, alone(first))
			a.remove(third)
			a.remove(first)
			w.wakes()
			third = a.join(driver.Exclusive)
			w = a.watch(third, alone(second))
			s.Delete(s.T, third)
			b.remove(second)
			if got := soon(s, w.done, wallAnswer); got.err == nil {
				require.Nil(s, got.proof, "the entry was gone before the event")
			}
		}
	}},
	{"ProofOfWriters", "a reader that goes from in front of a writer leaves others there", func(s *scene) {
		a, b := s.pair()
		first, second := a.join(driver.Read), a.join(driver.Read)
		writer := b.join(driver.Write)
		w := b.watch(writer, gone(second))
		a.remove(second)
		w.wakes()
		require.Equal(s, []string{first.ID}, ids(b.all(writer)))
		held := a.join(driver.Write)
		reader := b.join(driver.Read)
		w = b.watch(reader, changed(b.all(reader)[2]))
		to := a.replace(held, driver.Read, nil)
		got := soon(s, w.done, wallAnswer)
		require.NoError(s, got.err)
		if got.proof != nil {
			require.Equal(s, []string{first.ID, writer.ID, to.ID}, ids(got.proof.Entries))
			require.Equal(s, driver.Read, got.proof.Entries[2].Kind)
		}
	}},
	{"ProofOfOneMoment", "a view that is made of two never was: both of two holders may be missing in it", func(s *scene) {
		a, b := s.pair()
		for range 10 {
			// They leave and others come, so that each moment has its own set of entries ahead.
			var ahead []driver.Entry
			for range 8 {
				ahead = append(ahead, a.join(driver.Permit))
			}
			e := b.join(driver.Permit)
			order := []int{5, 1, 7, 3, 0, 6, 2, 4}
			states := [][]string{ids(ahead)}
			left := slices.Clone(ahead)
			for _, i := range order {
				left = slices.DeleteFunc(left, func(e driver.Entry) bool { return e.ID == ahead[i].ID })
				states = append(states, ids(left))
			}
			w := b.watch(e, gone(ahead[5]), gone(ahead[3]), gone(ahead[4]))
			for _, i := range order {
				a.remove(ahead[i])
			}
			got := soon(s, w.done, wallAnswer)
			require.NoError(s, got.err)
			if got.proof != nil {
				require.Equal(s, e.ID, got.proof.Self.ID)
				require.Contains(s, states, ids(got.proof.Entries))
			}
			b.remove(e)
		}
	}},
	{"ProofIsNotOld", "what was ahead before the call may have been replaced by nothing", func(s *scene) {
		a, b := s.pair()
		first, second := a.join(driver.Permit), a.join(driver.Permit)
		e := b.join(driver.Permit)
		a.remove(first)
		a.remove(second)
		w := b.watch(e, gone(first))
		w.wakes()
		w = b.watch(e, gone(second))
		w.wakes()
	}},
	{"ProofHasTheRegister", "a permit that is told an old size counts wrong", func(s *scene) {
		a, b := s.pair()
		first := a.join(driver.Permit)
		e := b.join(driver.Permit)
		was, err := a.SetRegister(s.ctx(), s.queue, "5 5", 0, driver.Entry{})
		require.NoError(s, err)
		w := b.watch(e, gone(first), written(s.queue, was))
		is, err := a.SetRegister(s.ctx(), s.queue, "5 6", was, driver.Entry{})
		require.NoError(s, err)
		got := soon(s, w.done, wallAnswer)
		require.NoError(s, got.err)
		if got.proof != nil {
			require.Equal(s, driver.Register{Value: "5 6", Version: is}, got.proof.Register)
		}
	}},
	{"ProofOfNothing", "without an entry there is nothing to prove", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		w := b.watch(driver.Entry{}, gone(e))
		a.remove(e)
		got := soon(s, w.done, wallAnswer)
		require.NoError(s, got.err)
		require.Nil(s, got.proof)
	}},
}
