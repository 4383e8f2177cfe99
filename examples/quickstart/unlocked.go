//go:build unix

package main

import "context"

// workUnlocked is work for -no-lock: the same reads and writes, and no one waits. Its token is 0, as of a
// worker that has never held the lock. The server lets it in because it has not seen a higher one.
func workUnlocked(ctx context.Context, c workerConfig, s *stage) error {
	w := &worker{number: &number{url: c.Number, who: c.Name}, stage: s}
	if err := s.awaitStart(ctx); err != nil {
		return err
	}
	for range c.Adds {
		if err := w.increment(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}
