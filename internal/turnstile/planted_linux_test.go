package turnstile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlantedGateIsNotWrittenTo: a link leads to a file of another program. Tickets are then without numbers.
func TestPlantedGateIsNotWrittenTo(t *testing.T) {
	for name, plant := range map[string]func(victim, gate string) error{
		"symbolic": os.Symlink,
		"hard":     os.Link,
		"dangling": func(victim, gate string) error { return os.Symlink(victim+".new", gate) },
		"pipe":     func(_, gate string) error { return syscall.Mkfifo(gate, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, gate := filepath.Join(dir, "victim"), filepath.Join(dir, "gate")
			require.NoError(t, os.WriteFile(victim, []byte("a text of another program"), 0o600))
			require.NoError(t, plant(victim, gate))
			g := New(gate)
			ticket, err := g.Join(t.Context())
			require.NoError(t, err)
			require.Zero(t, ticket.number)
			require.True(t, ticket.Wait(t.Context()))
			ticket.Leave(true)
			require.NoError(t, g.Close())
			content, err := os.ReadFile(victim)
			require.NoError(t, err)
			require.Equal(t, "a text of another program", string(content))
			require.NoFileExists(t, victim+".new")
		})
	}
}
