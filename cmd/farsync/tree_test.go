package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestTreeOfManyLayers: where the holder of one of two locks waits for both of the next two, and so on, each layer doubles
// the ways that lead on. The tree has each holder below a lock once.
func TestTreeOfManyLayers(t *testing.T) {
	const layers = 14
	user := func(id string, held bool, under ...string) userJSON {
		return userJSON{Holder: id, ID: id, Held: held, Under: under, kind: farsync.KindExclusive, Units: 1}
	}
	var locks []lockJSON
	for layer := range layers {
		for _, side := range []string{"a", "b"} {
			lock := lockJSON{Path: fmt.Sprintf("/%s%d", side, layer), Participants: []userJSON{user(fmt.Sprintf("%s%d", side, layer), true)}}
			if layer > 0 {
				for _, of := range []string{"a", "b"} {
					lock.Participants = append(lock.Participants, user("w"+of+side+fmt.Sprint(layer), false, fmt.Sprintf("%s%d", of, layer-1)))
				}
			}
			locks = append(locks, lock)
		}
	}
	var b bytes.Buffer
	require.NoError(t, grow(locks, time.Now()).write(&b))
	first, _, found := strings.Cut(b.String(), "\n/b0  ")
	require.True(t, found)
	first += "\n"
	for layer := 1; layer < layers; layer++ {
		for _, side := range []string{"a", "b"} {
			shown := fmt.Sprintf("/%s%d, held by %s%d", side, layer, side, layer)
			again := strings.Count(first, shown+", whose waits are above\n")
			if layer == layers-1 {
				again = strings.Count(first, shown+"\n") - 1 // it waits for nothing
			}
			ways := 2 // both of the layer before wait for it
			if layer == 1 {
				ways = 1
			}
			require.Equal(t, ways-1, again, shown)
			require.Equal(t, ways, strings.Count(first, shown+"\n")+strings.Count(first, shown+", whose"), shown)
		}
	}
	require.Less(t, strings.Count(b.String(), "\n"), 10*layers*layers)
}
