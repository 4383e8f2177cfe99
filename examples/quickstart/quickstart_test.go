//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
)

// programVariable makes the test binary the program, in all of its processes.
const programVariable = "FARSYNC_QUICKSTART_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	embedtest.Main(m)
}

func program(t *testing.T, args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+t.TempDir())
	return command
}

// run returns the program's exit status and its output.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	command := program(t, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// figure returns the figure in a row of the table.
func figure(t *testing.T, output, row string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(row) + ` +(\S+)`).FindStringSubmatch(output)
	require.NotNil(t, found, "no row %q in\n%s", row, output)
	return found[1]
}

func count(t *testing.T, output, row string) int {
	t.Helper()
	n, err := strconv.Atoi(figure(t, output, row))
	require.NoError(t, err)
	return n
}

func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	status, out, errs := run(t, "-adds", "40", "-ttl", "2s")
	require.Zero(t, status, "%s%s", out, errs)
	require.Empty(t, errs)
	require.Equal(t, 160, count(t, out, "expected"))
	require.Equal(t, 160, count(t, out, "found"))
	require.Zero(t, count(t, out, "adds that overlapped"))
	require.GreaterOrEqual(t, count(t, out, "acquisitions"), 162, "160 that added, one killed, one stopped")
	require.Greater(t, count(t, out, "hand-overs"), 80, "those who wait get it, not the one who just had it")
	require.Equal(t, "yes", figure(t, out, "tokens strictly increasing"))
	refused := count(t, out, "late requests refused")
	require.Positive(t, refused)
	require.Equal(t, refused, count(t, out, "  and their lease was lost"))
	require.Zero(t, count(t, out, "late requests accepted"))
	require.Zero(t, count(t, out, "entries left in etcd"))
	for _, row := range []string{"lock free after the kill", "lock free after the stop"} {
		free, err := strconv.ParseFloat(figure(t, out, row), 64)
		require.NoError(t, err)
		require.Less(t, free, 3*2.5, "in seconds: three times the TTL and the half second in which etcd notices")
	}
	require.Contains(t, out, "Nothing was lost.")
}

// Four processes at once read and write a number over HTTP, a thousand times in all, and begin together. For none to be
// between the read and the write of another, they would have to run one after the other by chance, each for a tenth of
// a second or more without being interrupted.
func TestWithoutTheLockAddsAreLost(t *testing.T) {
	t.Parallel()
	status, out, _ := run(t, "-no-lock")
	require.Equal(t, failed, status, out)
	require.Less(t, count(t, out, "found"), count(t, out, "expected"))
	require.Positive(t, count(t, out, "adds that overlapped"))
	require.Contains(t, out, "adds are lost")
}

func TestWithoutTheFenceTheLateWriteIsAccepted(t *testing.T) {
	t.Parallel()
	status, out, _ := run(t, "-no-fence", "-adds", "20")
	require.Equal(t, failed, status, out)
	require.Less(t, count(t, out, "found"), count(t, out, "expected"))
	require.Positive(t, count(t, out, "late requests accepted"))
	require.Zero(t, count(t, out, "late requests refused"))
}

func TestNothingIsLeftInTheUsersEtcd(t *testing.T) {
	t.Parallel()
	server := embedtest.Etcd(t)
	status, out, errs := run(t, "-adds", "10", "-endpoints", strings.TrimPrefix(server.Endpoint(), "http://"))
	require.Zero(t, status, "%s%s", out, errs)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	all, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Zero(t, all.Count)
}

// However the show is broken off, also while a worker is stopped, no process is left.
func TestNoProcessIsLeft(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		group  bool // to all processes at once, as from a terminal
		status int
		files  bool // are left
	}{
		{"interrupted", syscall.SIGINT, true, interrupted, false},
		{"terminated", syscall.SIGTERM, false, interrupted, false},
		{"killed", syscall.SIGKILL, false, -1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.signal == syscall.SIGKILL && runtime.GOOS != "linux" {
				t.Skip("a stopped worker cannot notice that its parent was killed")
			}
			t.Parallel()
			// Every process of the show inherits the write end of a pipe, above the files they use: while one of them is
			// there, it has no end.
			alive, theirs, err := os.Pipe()
			require.NoError(t, err)
			defer alive.Close()
			command := program(t, "-adds", "20", "-ttl", "5s")
			command.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, nil, theirs}
			command.SysProcAttr = &syscall.SysProcAttr{Setpgid: test.group}
			stdout, err := command.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			require.NoError(t, theirs.Close())
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "(SIGSTOP)") {
			}
			to := command.Process.Pid
			if test.group {
				to = -to
			}
			require.NoError(t, syscall.Kill(to, test.signal))
			_, _ = io.Copy(io.Discard, stdout)
			_ = command.Wait()
			require.Equal(t, test.status, command.ProcessState.ExitCode())
			require.NoError(t, alive.SetReadDeadline(time.Now().Add(10*time.Second)))
			_, err = alive.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "a process is left")
			for _, variable := range command.Env {
				if dir, ok := strings.CutPrefix(variable, "TMPDIR="); ok && !test.files {
					left, err := os.ReadDir(dir)
					require.NoError(t, err)
					require.Empty(t, left)
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"-help", allRight, "-endpoints"},
		{"--help", allRight, "exit status"},
		{"-adds 9", misused, "-adds 9: at least 10"},
		{"-adds many", misused, `"many"`},
		{"-ttl 10ms", misused, "-ttl 10ms: whole seconds, at least 1s"},
		{"-endpoints localhost", misused, `"localhost" is not host:port`},
		{"-no-lock -no-fence", misused, "one at a time"},
		{"-nolock", misused, "-nolock"},
		{"more", misused, `"more"`},
		{"worker", misused, "started by quickstart"},
		{"-endpoints 127.0.0.1:1", failed, "no etcd at 127.0.0.1:1"},
	} {
		t.Run(test.args, func(t *testing.T) {
			status, out, errs := run(t, strings.Fields(test.args)...)
			require.Equal(t, test.status, status)
			require.Contains(t, out+errs, test.says)
		})
	}
}
