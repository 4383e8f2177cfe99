//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPriorities: while COMMAND runs, guard and supervisor have the highest that there is, where that is allowed. COMMAND has that of
// the caller.
func TestPriorities(t *testing.T) {
	t.Parallel()
	was, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	const gentler = 3
	nice := 20 - was + gentler // getpriority(2) itself returns 20 less the niceness
	want := -20
	if !mayRaise() {
		want = nice
	}
	dir := t.TempDir()
	program, err := mortal()
	require.NoError(t, err)
	end(t, dir)
	p := startAs(t, file(t), "nice", "-n", fmt.Sprint(gentler), "farsync", "run", "/x", "--", program, dir, "polite")
	all := born(t, dir)
	for _, l := range all {
		require.Equal(t, []int{nice}, niceness(t, l.pid), "COMMAND and its descendants")
	}
	for _, pid := range []int{p.Process.Pid, all[0].parent} {
		until(t, "guard and supervisor are preferred", func() bool {
			list := niceness(t, pid)
			return len(list) == 1 && list[0] == want
		})
	}
}

// mayRaise tries it, on a thread that ends with its goroutine.
func mayRaise() bool {
	may := make(chan bool)
	go func() {
		runtime.LockOSThread()
		may <- unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20) == nil
	}()
	return <-may
}

// niceness returns those of the threads of a process, each once.
func niceness(t *testing.T, pid int) (list []int) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state …: the 19th field, where the name may have anything in it
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		var nice int
		_, err = fmt.Sscan(fields[16], &nice)
		require.NoError(t, err)
		if !seen[nice] {
			seen[nice] = true
			list = append(list, nice)
		}
	}
	return list
}
