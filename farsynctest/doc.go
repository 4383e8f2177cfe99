// Package farsynctest is for programs that test their own code: it has a service in memory, which loses sessions and
// requests when a test says so.
//
// NewMem makes the service, and Mem.Open a Store on it, as a process of its own has one. A program has the same Store in production, and
// with it every primitive: only the service is another. In a bubble of testing/synctest an hour takes no time, and a test of
// a lost lease is exact:
//
//	synctest.Test(t, func(t *testing.T) {
//		service := farsynctest.NewMem()
//		store := service.Open(nil)
//		defer store.Close()
//		… // the code under test locks
//		service.Lose(store)
//		… // and has to stop
//	})
//
// Mem.Lose ends a session for both sides, now. Mem.Expire ends it at the service alone, and Mem.Partition cuts the Store off: the
// holder does not know yet. Mem.SetFault, or Inject below the Store of any backend, decides on each request; Record writes down what was
// requested.
//
// # Bubbles
//
// A Store has goroutines, timers and channels. They belong to the bubble in which it was opened, so make the service, open the
// Store, use it and close it in one bubble. Otherwise the runtime ends the whole test binary. A Store that was opened outside, in
// TestMain for example, and is used in a bubble, ends it with
//
//	fatal error: sync: WaitGroup.Add called from inside and outside synctest bubble
//	fatal error: close of synctest channel from outside bubble
//
// or another operation on a channel. A Store that is not closed when the function of the bubble returns ends it with
//
//	panic: deadlock: main bubble goroutine has exited but blocked goroutines remain
//
// docs/TESTING.md has more on both, and a unit test of a lost lease.
//
// The package links no testify and not even package testing, so that a program may also have it in a mode for demonstrations. The suite
// that holds a backend to the contract of package driver is package driver/drivertest.
package farsynctest
