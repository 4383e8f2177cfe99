package compattest

import "strings"

// sizes goes on with the scene of the size where the versions keep it in different places. A permit of theirs counts for
// both, but each knows only the size that was declared and changed by its own. Two holds all of two units, and behind waits.
func (s *scene) sizes(two, behind *turn) {
	acquire := func(size, units int64) Move { return Move{Do: "acquire", Path: s.path, Size: size, Units: units} }
	s.a2.do(Move{Do: "resize", Path: s.path, Size: 2, Units: 4})
	more := s.a2.get(acquire(2, 1)) // of four units three are taken, or asked for
	behind.waits()
	s.b2.begin(acquire(2, 3)).fails("too large")
	two.release()
	behind.got()
	more.release()
	behind.release()
	s.agree(0, 2)

	// What is changed through both is changed for both.
	s.b2.do(Move{Do: "resize", Path: s.path, Size: 2, Units: 4})
	for _, by := range [][2]contestant{{s.a, s.b}, {s.b, s.a}} {
		four := by[0].get(acquire(2, 4))
		one := by[1].begin(acquire(2, 1))
		holds(s, s.agree(2, 2), 1)
		one.waits()
		four.release()
		one.got().release()
		s.agree(0, 2)
	}

	// One declares another size, and the other is not told so; its units count.
	seven := s.b.get(acquire(7, 7))
	one := s.a.begin(acquire(2, 1))
	s.b2.begin(acquire(2, 1)).fails("size")
	one.waits()
	seven.release()
	one.got().release()
	s.agree(0, 2)
}

// sizesTogether writes the new place of a size as the earlier one in all that was seen, and returns how often it did.
func sizesTogether(stages [][]string) (n int) {
	const recent, earlier = "!size/units = ", " = "
	for _, stage := range stages {
		for i, line := range stage {
			if value, ok := strings.CutPrefix(line, recent); ok {
				stage[i] = earlier + value
				n++
			}
		}
	}
	return n
}
