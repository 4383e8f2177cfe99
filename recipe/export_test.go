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
