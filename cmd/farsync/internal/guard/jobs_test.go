//go:build unix

package guard

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyAShellWithJobsContinues what is stopped.
func TestOnlyAShellWithJobsContinues(t *testing.T) {
	self := os.Getpid()
	const script, shell, login = 2000001, 2000002, 2000003
	for _, row := range []struct {
		name  string
		known map[int]relation
		want  bool
	}{
		{"a shell with jobs", map[int]relation{
			self: {shell, self, shell}, shell: {login, shell, shell}, login: {1, login, login},
		}, true},
		{"a script of such a shell", map[int]relation{
			self: {script, script, shell}, script: {shell, script, shell}, shell: {login, shell, shell}, login: {1, login, login},
		}, true},
		{"a script that leads its session", map[int]relation{
			self: {script, script, script}, script: {login, script, script}, login: {1, login, login},
		}, false},
		{"a session of its own", map[int]relation{
			self: {shell, self, self}, shell: {login, shell, shell}, login: {1, login, login},
		}, false},
		{"the first process of a container", map[int]relation{self: {0, self, self}}, false},
		// getpgid(0) and getsid(0) are those of the caller.
		{"a parent in another PID namespace", map[int]relation{self: {0, self, 0}, 0: {0, 0, 0}}, false},
		{"a script whose parent is in another PID namespace", map[int]relation{
			self: {script, script, script}, script: {0, script, script}, 0: {0, 0, script},
		}, false},
		{"a parent that has just ended", map[int]relation{self: {shell, self, shell}}, false},
	} {
		got := continuable(func(pid int) (relation, bool) {
			r, ok := row.known[pid]
			return r, ok
		})
		require.Equal(t, row.want, got, row.name)
	}
}

func TestRelationOfThisProcess(t *testing.T) {
	r, ok := relationOf(os.Getpid())
	require.True(t, ok)
	require.Equal(t, os.Getppid(), r.parent)
	above, ok := relationOf(r.parent)
	require.True(t, ok)
	require.Positive(t, above.group)
}
