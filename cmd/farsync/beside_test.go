//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// helper is a line of a shell that starts what an entry point of a container starts before it becomes farsync: a process with a
// child, which makes a daemon when there is a file "go". Each writes its PID.
func helper(dir string) string {
	return `cd ` + dir + ` && {
sh -c '
	echo $$ >parent
	sleep 1000 & echo $! >child
	until test -e go; do sleep 0.02; done
	(setsid sh -c "echo \$\$ >daemon.new; mv daemon.new daemon; exec sleep 1000" &)
	wait' </dev/null >/dev/null 2>&1 &
} && `
}

// helpers returns the processes of helper, when all of them live. They are ended with the test.
func helpers(t *testing.T, dir string) (pids []int) {
	t.Helper()
	read := func(name string) (pid int) {
		until(t, "the helper has written "+name, func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil && pid > 0
		})
		t.Cleanup(func() { send(t, pid, syscall.SIGKILL) })
		return pid
	}
	pids = append(pids, read("parent"), read("child"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	return append(pids, read("daemon"))
}

// parent returns the parent of a process.
func parent(t *testing.T, pid int) (parent int) {
	t.Helper()
	fields := stat(pid)
	require.NotEmpty(t, fields)
	parent, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return parent
}

// TestWhatFarsyncHasNotStartedLives: a shell that has started helpers, and then becomes farsync, leaves it these, and the daemons that
// they make later. Whatever kills COMMAND, it spares them.
func TestWhatFarsyncHasNotStartedLives(t *testing.T) {
	t.Parallel()
	program, err := mortal()
	require.NoError(t, err)
	for name, row := range map[string]struct {
		die  func(guard, keeper, supervisor int)
		code int
	}{
		"supervisor killed": {func(_, _, supervisor int) { send(t, supervisor, syscall.SIGKILL) }, codeLost},
		"keeper killed":     {func(_, keeper, _ int) { send(t, keeper, syscall.SIGKILL) }, codeLost},
		"keeper killed behind a stopped supervisor": {func(_, keeper, supervisor int) {
			send(t, supervisor, syscall.SIGSTOP)
			send(t, keeper, syscall.SIGKILL)
		}, codeLost},
		"supervisor killed behind a stopped keeper": {func(_, keeper, supervisor int) {
			send(t, keeper, syscall.SIGSTOP)
			send(t, supervisor, syscall.SIGKILL)
			send(t, keeper, syscall.SIGCONT)
		}, codeLost},
		"guard killed": {func(guard, _, _ int) { send(t, guard, syscall.SIGKILL) }, codeSignal + int(syscall.SIGKILL)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, beside := memory(t), memory(t)
			end(t, dir)
			p := startAs(t, file(t), "sh", "-c", helper(beside)+`exec farsync run /x -- `+program+` `+dir+` deaf`)
			all := born(t, dir)
			others := helpers(t, beside)
			guard, supervisor := p.Process.Pid, all[0].parent
			keeper := parent(t, supervisor)
			require.NotEqual(t, guard, keeper)
			require.Equal(t, guard, parent(t, keeper))
			require.Equal(t, guard, parent(t, others[0]))
			row.die(guard, keeper, supervisor)
			for _, l := range all {
				until(t, "all that COMMAND has started is dead", func() bool { return dead(l.pid) })
			}
			until(t, "the supervisor and the keeper are dead", func() bool { return dead(supervisor) && dead(keeper) })
			require.Equal(t, row.code, p.code(t), p.err.String())
			for i, pid := range others {
				require.False(t, dead(pid), "%s of the helper was killed", []string{"the parent", "the child", "the daemon"}[i])
			}
		})
	}
}

// TestBesideOthersAllIsAsAlone: what is told of COMMAND's end, of signals and of what is left running does not depend on what else the shell
// has started that became farsync.
func TestBesideOthersAllIsAsAlone(t *testing.T) {
	t.Parallel()
	const first = "sleep 600 </dev/null >/dev/null 2>&1 & echo $! && exec farsync run "
	begin := func(t *testing.T, line string) (p *process, ready func(text string)) {
		p = startAs(t, file(t), "sh", "-c", first+line)
		t.Cleanup(func() {
			pid, err := strconv.Atoi(strings.Fields(p.out.String())[0])
			require.NoError(t, err)
			require.False(t, dead(pid), "the other was killed")
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		})
		return p, func(text string) {
			until(t, text, func() bool { return strings.Contains(p.out.String(), text) })
		}
	}
	t.Run("an exit code", func(t *testing.T) {
		p, _ := begin(t, "/x -- sh -c 'exit 3'")
		require.Equal(t, 3, p.code(t), p.err.String())
	})
	t.Run("a signal", func(t *testing.T) {
		p, ready := begin(t, "/x -- sh -c 'echo go; exec sleep 600'")
		ready("go\n")
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		diesOf(t, p, syscall.SIGTERM)
	})
	t.Run("the guard is the holder", func(t *testing.T) {
		p, _ := begin(t, `/x -- sh -c 'echo $FARSYNC_HOLDER'`)
		require.Zero(t, p.code(t))
		require.Contains(t, p.out.String(), " pid "+strconv.Itoa(p.Process.Pid)+"\n")
	})
	t.Run("what is left is killed", func(t *testing.T) {
		p, _ := begin(t, `--leftovers kill /x -- sh -c 'setsid sleep 600 & echo left $!; exit 4'`)
		require.Equal(t, 4, p.code(t), p.err.String())
		var pid, left int
		_, err := fmt.Sscanf(p.out.String(), "%d\nleft %d\n", &pid, &left)
		require.NoError(t, err)
		require.True(t, dead(left))
	})
	t.Run("what is left is left", func(t *testing.T) {
		p, _ := begin(t, `--leftovers leave /x -- sh -c 'setsid sleep 600 </dev/null >/dev/null 2>&1 & echo left $!; exit 4'`)
		require.Equal(t, 4, p.code(t), p.err.String())
		var pid, left int
		_, err := fmt.Sscanf(p.out.String(), "%d\nleft %d\n", &pid, &left)
		require.NoError(t, err)
		require.False(t, dead(left))
		require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	})
	t.Run("COMMAND that cannot be started", func(t *testing.T) {
		p, _ := begin(t, "/x -- /dev/null")
		require.Equal(t, codeCannotRun, p.code(t), p.err.String())
	})
}
