package suite

import (
	"os/exec"
	"strings"
	"testing"
)

// OtherClock returns the words before a command that give it a monotonic clock which is so many seconds ahead of ours, as a container that was
// restored may have. The command dies with them. t is not run where that is not possible.
func OtherClock(t testing.TB, seconds string) []string {
	t.Helper()
	words := []string{"unshare", "--time", "--monotonic", seconds, "--kill-child"}
	if out, err := exec.CommandContext(t.Context(), words[0], append(words[1:], "true")...).CombinedOutput(); err != nil {
		NotHere(t, "the right to make a time namespace: "+err.Error()+": "+strings.TrimSpace(string(out)))
	}
	return words
}
