package farsynctest_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// mistakeVariable has the test binary make a mistake with a bubble.
const mistakeVariable = "FARSYNC_MISTAKE_WITH_A_BUBBLE"

// TestTextsOfTheRuntime: docs/TESTING.md prints what a test binary ends with if a Store crosses the border of a bubble.
func TestTextsOfTheRuntime(t *testing.T) {
	page, err := os.ReadFile("../docs/TESTING.md")
	require.NoError(t, err)
	for mistake, texts := range map[string][]string{
		// Which comes first is a matter of scheduling.
		"outside": {
			`fatal error: sync: WaitGroup.Add called from inside and outside synctest bubble`,
			`fatal error: close of synctest channel from outside bubble`,
			`fatal error: receive on synctest channel from outside bubble`,
		},
		"open": {`panic: deadlock: main bubble goroutine has exited but blocked goroutines remain`},
	} {
		t.Run(mistake, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMistakeWithABubble$", "-test.timeout=1m")
			command.Env = append(os.Environ(), mistakeVariable+"="+mistake)
			out, err := command.CombinedOutput()
			require.Error(t, err, "the binary ends")
			require.Regexp(t, `fatal error: .*outside (synctest )?bubble|panic: deadlock: `, string(out))
			for _, text := range texts {
				require.Contains(t, string(page), text)
			}
		})
	}
}

// TestMistakeWithABubble makes the mistake that its parent asks for.
func TestMistakeWithABubble(t *testing.T) {
	switch os.Getenv(mistakeVariable) {
	case "outside": // opened outside, and used inside
		service := farsynctest.NewMem()
		store := service.Open(nil)
		synctest.Test(t, func(*testing.T) {
			lease, err := farsync.NewMutex(store, "/q").Lock(context.Background())
			if err != nil {
				return
			}
			_ = lease.Done()
			service.Lose(store)
			for { // until the goroutine outside closes a channel of the bubble
				time.Sleep(time.Second) //nolint:forbidigo // in a bubble
			}
		})
	case "open": // not closed when the bubble ends
		synctest.Test(t, func(*testing.T) { farsynctest.NewMem().Open(nil) })
	}
}
