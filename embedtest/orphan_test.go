//go:build linux

package embedtest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// orphansVariable has TestOrphans play the parent that dies; its value is how.
const orphansVariable = "FARSYNC_EMBEDTEST_ORPHANS"

// TestOrphans is one half of TestChildrenDieWithTheirParent.
func TestOrphans(t *testing.T) {
	end := os.Getenv(orphansVariable)
	if end == "" {
		t.Skip("run by TestChildrenDieWithTheirParent")
	}
	ensemble := embedtest.EtcdCluster(t, 2)
	ensemble.Member(1).Pause()
	if _, _, err := embedtest.FindZooKeeper(); err == nil {
		embedtest.ZooKeeper(t).Pause()
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		embedtest.Redis(t).Pause()
	}
	for _, pid := range childrenOf(t, os.Getpid()) {
		fmt.Println("child", pid)
	}
	fmt.Println("ready")
	switch end {
	case "panic":
		panic("as a test that timed out")
	case "exit":
		os.Exit(3)
	default:
		<-t.Context().Done() // until killed
	}
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills processes that have stopped servers")
	for _, end := range []string{"kill", "panic", "exit"} {
		t.Run(end, func(t *testing.T) {
			parent := exec.Command(os.Args[0], "-test.run=^TestOrphans$", "-test.v")
			parent.Env = append(os.Environ(), orphansVariable+"="+end, "TMPDIR="+t.TempDir())
			output, err := parent.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, parent.Start())
			var children []int
			scanner := bufio.NewScanner(output)
			for scanner.Scan() && scanner.Text() != "ready" {
				if text, ok := strings.CutPrefix(scanner.Text(), "child "); ok {
					pid, err := strconv.Atoi(text)
					require.NoError(t, err)
					children = append(children, pid)
				}
			}
			watches := make([]int, len(children))
			for i, pid := range children {
				watches[i], err = unix.PidfdOpen(pid, 0)
				if err != nil {
					require.ErrorIs(t, err, unix.ESRCH) // gone already
				}
			}
			if end == "kill" {
				require.NoError(t, parent.Process.Kill())
			}
			_, _ = io.Copy(io.Discard, output)
			require.Error(t, parent.Wait())
			require.GreaterOrEqual(t, len(children), 2)
			for i, pid := range children {
				if watches[i] <= 0 {
					continue
				}
				ready, err := unix.Poll([]unix.PollFd{{Fd: int32(watches[i]), Events: unix.POLLIN}}, int(soon/time.Millisecond))
				require.NoError(t, err)
				require.Equal(t, 1, ready, "child %d outlives its parent", pid)
				_ = unix.Close(watches[i])
			}
		})
	}
}

func TestCleanupLeavesNoProcess(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops a member of a cluster")
	before := childrenOf(t, os.Getpid())
	t.Run("servers", func(t *testing.T) {
		ensemble := embedtest.EtcdCluster(t, 3)
		ensemble.Member(0).Pause()
		require.Len(t, childrenOf(t, os.Getpid()), len(before)+3)
	})
	require.Equal(t, before, childrenOf(t, os.Getpid()))
}

// TestProgramThatIsNamedIsTheServer: the servers are children of that program, whatever executable starts them.
func TestProgramThatIsNamedIsTheServer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.Symlink(os.Args[0], program))
	t.Setenv("FARSYNC_EMBEDTEST_PROGRAM", program)
	before := childrenOf(t, os.Getpid())
	server, err := embedtest.StartEtcd(within(t, soon), t.TempDir(), 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	for _, child := range childrenOf(t, os.Getpid()) {
		if !slices.Contains(before, child) {
			arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			require.NoError(t, err)
			require.Equal(t, program+"\x00", string(arguments))
		}
	}
	require.Len(t, childrenOf(t, os.Getpid()), len(before)+1)

	t.Setenv("FARSYNC_EMBEDTEST_PROGRAM", "/bin/true")
	_, err = embedtest.StartEtcd(within(t, soon), t.TempDir(), 1)
	require.ErrorContains(t, err, "does the program that FARSYNC_EMBEDTEST_PROGRAM names call embedtest.Child?")
}

func childrenOf(t *testing.T, pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var children []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			children = append(children, child)
		}
	}
	return children
}
