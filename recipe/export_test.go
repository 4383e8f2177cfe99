package recipe

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

// LinesInUse returns how many lines a Store keeps.
func (s *Store) LinesInUse() (n int) {
	for i := range s.lines {
		s.lines[i].mu.Lock()
		n += len(s.lines[i].of)
		s.lines[i].mu.Unlock()
	}
	return n
}
