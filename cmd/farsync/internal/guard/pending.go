//go:build unix

package guard

import "slices"

// pending is what is still to be told to a process, in order. As with the signals that the kernel keeps for a process,
// each byte is in it once, however often it was told. So a process that is stopped, or is busy, holds up nothing, and
// what it hears first is not the reason that it does not hear the rest.
type pending []byte

// add puts b last. Of a stop and a continuation the later one counts.
func (p pending) add(b byte) pending {
	return append(slices.DeleteFunc(p, func(other byte) bool { return other == b }), b)
}

// first returns what comes next, and the channel to send it to: none, if there is nothing.
func first[T ~byte | ~int](p pending, to chan<- T) (chan<- T, T) {
	if len(p) == 0 {
		return nil, 0
	}
	return to, T(p[0])
}
