// Package bubbles is imported, for its effect alone, by every package whose tests use testing/synctest. With Go 1.26 and the race
// detector it lets one thread at a time run Go code in such a test binary.
//
// In Go 1.26 all timers of a bubble run in one context of the race detector. A timer runs in the goroutine that looks into its channel,
// if the channel is looked into at or after the timer's time; the others run in the goroutine that began the bubble. Two of them that run
// at once on two threads both count the calls of that context, without a lock, and when the count falls below zero the process dies of
// SIGSEGV, in the runtime, with no word of a test. It takes two timers of one instant, so it is rare. Go 1.27 uses the context of the
// processor.
//
// What the detector finds does not depend on threads: it compares what happened before what. That goroutines run in any order does not,
// either: under the detector the scheduler of Go picks at random.
package bubbles
