package compattest

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// shortTTL is that of players that are killed.
const shortTTL = 2 * time.Second

// A row is what two versions do together.
type row struct {
	name     string
	run      func(*scene)
	parallel bool   // it waits for a TTL
	long     string // why it is for make long, if it is
}

var rows = []row{
	{name: "mutex", run: func(s *scene) {
		lock := Move{Do: "lock", Path: s.path}
		one := s.a.get(lock)
		s.b.begin(Move{Do: "try lock", Path: s.path}).fails("locked")
		two := s.b.begin(lock)
		s.agree(2, 0)
		three := s.a2.begin(lock)
		holds(s, s.agree(3, 0), 1)
		two.waits()
		one.release()
		require.Greater(s, two.got().token, one.token)
		three.waits()
		holds(s, s.agree(2, 0), 1)
		two.release()
		require.Greater(s, three.got().token, two.token)
		three.release()
		s.agree(0, 0)
	}},
	{name: "waiter that gives up", run: func(s *scene) {
		lock := Move{Do: "lock", Path: s.path}
		one := s.a.get(lock)
		two := s.b.begin(lock)
		s.agree(2, 0)
		three := s.a2.begin(lock)
		s.agree(3, 0)
		four := s.b2.begin(lock)
		s.agree(4, 0)
		two.giveUp()
		s.agree(3, 0)
		three.waits()
		one.release()
		three.got()
		three.release()
		four.got().release()
		s.agree(0, 0)
	}},
	{name: "readers and writers", run: func(s *scene) {
		read, write := Move{Do: "read", Path: s.path}, Move{Do: "write", Path: s.path}
		one, two := s.a.get(read), s.b.get(read)
		s.b2.begin(Move{Do: "try write", Path: s.path}).fails("locked")
		writer := s.a2.begin(write)
		s.agree(3, 0)
		s.b2.begin(Move{Do: "try read", Path: s.path}).fails("locked")
		behind := s.b2.begin(read)
		holds(s, s.agree(4, 0), 2)
		one.release()
		s.agree(3, 0)
		writer.waits()
		two.release()
		require.Greater(s, writer.got().token, two.token)
		behind.waits()
		last := s.b.begin(write)
		holds(s, s.agree(3, 0), 1)
		writer.release()
		behind.got()
		last.waits()
		behind.release()
		last.got().release()
		s.agree(0, 0)
	}},
	{name: "downgrade", run: func(s *scene) {
		read, write := Move{Do: "read", Path: s.path}, Move{Do: "write", Path: s.path}
		writer := s.a.get(write)
		reader := s.b.begin(read)
		s.agree(2, 0)
		next := s.a2.begin(write)
		s.agree(3, 0)
		last := s.b2.begin(read)
		holds(s, s.agree(4, 0), 1)
		reader.waits()
		writer.also("downgrade").done()
		require.Greater(s, reader.got().token, writer.token, "both read")
		queue := s.agree(4, 0)
		holds(s, queue, 2)
		require.Contains(s, queue[0], s.a.name+": read", "it keeps its place")
		next.waits()
		reader.release()
		s.agree(3, 0)
		next.waits()
		writer.release()
		next.got()
		last.waits()
		next.also("downgrade").done()
		last.got()
		next.release()
		last.release()
		s.agree(0, 0)
	}},
	{name: "lock under another", run: func(s *scene) {
		lock := Move{Do: "lock", Path: s.path}
		outer := s.a.get(Move{Do: "lock", Path: s.path + "/outer"})
		one := s.b.get(lock)
		two := s.a.begin(Move{Do: "lock", Path: s.path, Of: outer.ID})
		for _, seen := range [][]string{s.a.sees(s.path, 0, 2), s.b.sees(s.path, 0, 2)} {
			holds(s, seen, 1)
			require.True(s, strings.HasPrefix(seen[1], s.a.name), "whatever else the holder's name is to a version of before: %s", seen[1])
		}
		three := s.b2.begin(lock)
		s.a.sees(s.path, 0, 3)
		one.release()
		two.got()
		three.waits()
		two.release()
		three.got().release()
		outer.release()
		s.agree(0, 0)
	}},
	{name: "semaphore", run: func(s *scene) {
		const size = 3
		acquire := func(size, units int64) Move { return Move{Do: "acquire", Path: s.path, Size: size, Units: units} }
		two := s.a.get(acquire(size, 2))
		one := s.b.get(acquire(size, 1))
		s.b2.begin(acquire(size+1, 1)).fails("size")
		s.a2.begin(acquire(size-1, 1)).fails("size")
		s.b.begin(acquire(size, size+1)).fails("too large")
		s.b2.begin(Move{Do: "try acquire", Path: s.path, Size: size, Units: 1}).fails("locked")
		s.agree(2, size) // what was refused is removed behind the refusal
		behind := s.b2.begin(acquire(size, 2))
		holds(s, s.agree(3, size), 2)
		// Out of order: it is the younger of the holders that goes.
		one.release()
		s.agree(2, size)
		behind.waits()
		two.release()
		require.Greater(s, behind.got().token, one.token)
		behind.release()
		s.agree(0, size)
	}},
	{name: "size", run: func(s *scene) {
		acquire := func(size, units int64) Move { return Move{Do: "acquire", Path: s.path, Size: size, Units: units} }
		two := s.a.get(acquire(2, 2))
		behind := s.b.begin(acquire(2, 1))
		s.agree(2, 2)
		// A version of before compares what is declared, and today's sets the size that counts, here to what it is.
		if other := (Move{Do: "resize", Path: s.path, Size: 5, Units: 2}); s.first == "old" {
			s.b2.do(other)
		} else {
			s.b2.begin(other).fails("size")
		}
		behind.waits()
		if s.sizesApart {
			s.sizes(two, behind)
			return
		}
		s.a2.do(Move{Do: "resize", Path: s.path, Size: 2, Units: 4})
		behind.got()
		more := s.b2.get(acquire(2, 1))
		s.b2.do(Move{Do: "resize", Path: s.path, Size: 2, Units: 1})
		last := s.a2.begin(acquire(2, 1))
		// Of a holder of more units than are left, one version says that it holds and the other that it waits.
		s.a.sees(s.path, 2, 4)
		two.release()
		s.agree(3, 2)
		behind.release()
		s.agree(2, 2)
		last.waits()
		more.release()
		last.got()
		s.a.begin(acquire(2, 2)).fails("too large")
		last.release()
		s.agree(0, 2)
		// Once the queue is empty another size may be declared, by either version.
		other := s.b.get(acquire(7, 7))
		s.a.begin(acquire(2, 1)).fails("size")
		other.release()
		other = s.a.get(acquire(5, 5))
		s.b.begin(acquire(7, 1)).fails("size")
		other.release()
	}},
	{name: "election", run: func(s *scene) {
		campaign := func(value string) Move { return Move{Do: "campaign", Path: s.path, Value: value} }
		leader := Move{Do: "leader", Path: s.path}
		observer := s.b2.begin(Move{Do: "observe", Path: s.path})
		observer.fails("no leader")
		s.b.begin(leader).fails("no leader")

		one := s.a.get(campaign("first"))
		seen := observer.done()
		require.Equal(s, "first", seen.Value)
		require.Equal(s, one.token, seen.Token)
		told := s.b.do(leader)
		require.Equal(s, seen.Value, told.Value)
		require.Equal(s, seen.Token, told.Token)

		two := s.b.begin(campaign("second"))
		holds(s, s.agree(2, 0), 1)
		s.a.do(Move{Do: "proclaim", Path: s.path, Of: one.ID, Value: "first of all"})
		seen = observer.done()
		require.Equal(s, "first of all", seen.Value)
		require.Equal(s, one.token, seen.Token)
		require.Equal(s, "first of all", s.b.do(leader).Value)
		two.waits()

		other := s.a2.begin(Move{Do: "observe", Path: s.path})
		require.Equal(s, "first of all", other.done().Value)
		one.release()
		require.Greater(s, two.got().token, one.token)
		require.Equal(s, "second", other.done().Value)
		require.Equal(s, "second", observer.done().Value)
		s.b.do(Move{Do: "proclaim", Path: s.path, Of: two.ID, Value: "second to none"})
		seen = other.done()
		require.Equal(s, "second to none", seen.Value)
		require.Equal(s, two.token, seen.Token)
		two.release()
		other.fails("no leader")
		other.giveUp()
	}},
	{name: "ask", run: func(s *scene) {
		lock, read := Move{Do: "lock", Path: s.path}, Move{Do: "read", Path: s.path}
		one := s.a.get(lock)
		asked := one.also("asked")
		behind := s.b2.begin(lock)
		s.agree(2, 0)
		asked.waits()
		s.b.do(Move{Do: "ask", Path: s.path})
		asked.done()
		behind.waits()
		one.release()
		behind.got()
		next := behind.also("asked")
		// Before anybody listens, and to several.
		s.path += "/readers"
		read.Path = s.path
		readers := []*turn{s.a.get(read), s.a2.get(read)}
		s.b.do(Move{Do: "ask", Path: s.path})
		for _, r := range readers {
			r.also("asked").done()
			r.release()
		}
		next.waits()
		next.giveUp()
		behind.release()
		s.agree(0, 0)
	}},
	{name: "what is written", run: func(s *scene) {
		// The same, in a queue for each version.
		play := func(p, other contestant, path string) (stages [][]string) {
			look := func(path string) { stages = append(stages, s.written(s, path)) }
			for _, do := range []string{"lock", "write", "read"} {
				held := p.get(Move{Do: do, Path: path + "/" + do})
				look(held.Path)
				if do == "write" {
					held.also("downgrade").done()
					look(held.Path)
				}
				other.do(Move{Do: "ask", Path: held.Path})
				look(held.Path)
				held.also("asked").done()
				held.release()
				// Words that were left with it: the earlier version leaves them until its session ends, and this one takes
				// them back in the background.
				stages = append(stages, append([]string{}, slices.DeleteFunc(s.written(s, held.Path), func(key string) bool {
					return strings.HasPrefix(key, "!ask/")
				})...))
			}
			units := p.get(Move{Do: "acquire", Path: path + "/units", Size: 3, Units: 2})
			look(units.Path)
			p.do(Move{Do: "resize", Path: units.Path, Size: 3, Units: 5})
			look(units.Path)
			units.release()
			look(units.Path)
			leads := p.get(Move{Do: "campaign", Path: path + "/leads", Value: "value"})
			look(leads.Path)
			p.do(Move{Do: "proclaim", Path: leads.Path, Of: leads.ID, Value: "another"})
			look(leads.Path)
			leads.release()
			look(leads.Path)
			return stages
		}
		first, second := play(s.a, s.a2, s.path+"/a"), play(s.b, s.b2, s.path+"/b")
		require.NotEmpty(s, first[0])
		if s.sizesApart {
			require.Equal(s, 3, sizesTogether(slices.Concat(first, second)), "looks at the units of one version")
		}
		require.Equal(s, first, second)
	}},
	{name: "killed", parallel: true, long: "kills a player, with a TTL of 2 s", run: func(s *scene) {
		lock := func(path string) Move { return Move{Do: "lock", Path: s.path + path} }
		campaign := func(value string) Move { return Move{Do: "campaign", Path: s.path + "/leads", Value: value} }
		mortal := s.mortal()
		held, leads := mortal.get(lock("/held")), mortal.get(campaign("mortal"))
		waits, follows := s.b.begin(lock("/held")), s.b.begin(campaign("next"))
		observer := s.b2.begin(Move{Do: "observe", Path: leads.Path})
		require.Equal(s, "mortal", observer.done().Value)

		// It waits between two others, too.
		ahead := s.a2.get(lock("/between"))
		mortal.begin(lock("/between"))
		s.b.sees(ahead.Path, 0, 2)
		behind := s.b2.begin(lock("/between"))
		for path, n := range map[string]int{held.Path: 2, leads.Path: 2, ahead.Path: 3} {
			s.b.sees(path, 0, n)
		}

		require.NoError(s, mortal.kill())
		ahead.release()
		require.Greater(s, waits.got().token, held.token)
		require.Greater(s, follows.got().token, leads.token)
		require.Equal(s, "next", observer.done().Value)
		require.Greater(s, behind.got().token, ahead.token)
		for _, lease := range []*turn{waits, follows, behind} {
			lease.release()
		}
	}},
}
