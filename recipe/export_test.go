package recipe

import "fmt"

// Made returns how many entries the session of a Store may have, as far as it knows.
func (s *Store) Made() int {
	s.mu.Lock()
	in := s.current
	s.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.made)
}

// The bounds of lapsed sessions, and of the time to the next session.
const (
	ReopenMost  = reopenMost
	MostLapsed  = mostLapsed
	LapsedTries = lapsedTries
)

// Lapsed returns how many sessions a Store remembers that it has lost, but for the one that is being ended.
func (s *Store) Lapsed() int {
	s.lapses.mu.Lock()
	defer s.lapses.mu.Unlock()
	return len(s.lapses.list)
}

// Earlier returns of how many entries a Store remembers that lost sessions may have left them.
func (s *Store) Earlier() int {
	s.earlier.mu.Lock()
	defer s.earlier.mu.Unlock()
	return len(s.earlier.of)
}

// LinesInUse returns how many lines a Store keeps.
func (s *Store) LinesInUse() (n int) {
	for i := range s.lines {
		s.lines[i].mu.Lock()
		n += len(s.lines[i].of)
		s.lines[i].mu.Unlock()
	}
	return n
}

// CheckWindows returns what is not as it has to be of the semaphores in use, and how many entries and requests there are for them.
func (s *Store) CheckWindows() (bids int, err error) {
	for i := range s.lines {
		s.lines[i].mu.Lock()
		var all []*window
		for _, g := range s.lines[i].of {
			if g.window != nil {
				all = append(all, g.window)
			}
		}
		s.lines[i].mu.Unlock()
		for _, w := range all {
			w.mu.Lock()
			bids += len(w.bids)
			if err == nil {
				err = w.check()
			}
			w.mu.Unlock()
		}
	}
	return bids, err
}

func (w *window) check() error {
	carried, waiting := map[int64]int{}, map[int64]int{}
	for _, b := range w.bids {
		if b.drop != nil {
			carried[b.units]++
		}
	}
	for at := w.line.Front(); at != nil; at = at.Next() {
		waiting[at.Value.(*waiter).units]++
	}
	for units, n := range waiting {
		if d := w.asked[units]; d != (demand{n, carried[units]}) || d.carried > d.waiting {
			return fmt.Errorf("%d wait for %d, with %d bids: counted as %v", n, units, carried[units], d)
		}
		if w.largest() < units {
			return fmt.Errorf("%d wait for %d units, and no bid for as many", n, units)
		}
	}
	if len(w.asked) != len(waiting) {
		return fmt.Errorf("%v is counted of %v", w.asked, waiting)
	}
	if w.line.Len() > 0 && len(w.bids) == 0 {
		return fmt.Errorf("%d wait, and nothing stands for them", w.line.Len())
	}
	return nil
}
