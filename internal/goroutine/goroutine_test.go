package goroutine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumber(t *testing.T) {
	mine, ok := Number()
	require.True(t, ok)
	again, _ := Number()
	require.Equal(t, mine, again)
	others := make(chan uint64)
	for range 10 {
		go func() {
			n, _ := Number()
			others <- n
		}()
	}
	for range 10 {
		require.NotEqual(t, mine, <-others)
	}
}
