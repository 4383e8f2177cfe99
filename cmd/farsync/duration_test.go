package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPatienceIsNeverNegative(t *testing.T) {
	for _, text := range []string{"9223372036.854776", "9223372036.9", "1e300", "NaN", "Inf", "-1", "-1s"} {
		var p patience
		require.Error(t, p.Set(text), text)
	}
	var p patience
	require.NoError(t, p.Set("9223372036"))
	require.Equal(t, 9223372036*time.Second, p.Duration)
}
