//go:build unix

// Package programtest runs an example program as its user would, for its tests.
package programtest

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/examples/internal/program"
)

// programVariable makes the test binary the program, in all of its processes.
const programVariable = "FARSYNC_EXAMPLE_PROGRAM"

// Main is the body of the TestMain of a program with that main.
func Main(m *testing.M, main func()) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	embedtest.Main(m)
}

// Command returns the command that runs the program with those arguments.
func Command(t testing.TB, args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+t.TempDir())
	return command
}

// Run returns the program's exit status and its output.
func Run(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	command := Command(t, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// Figure returns the figure in a row of the table.
func Figure(t testing.TB, output, row string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(row) + ` +(\S+)`).FindStringSubmatch(output)
	require.NotNil(t, found, "no row %q in\n%s", row, output)
	return found[1]
}

// Count is Figure for a number.
func Count(t testing.TB, output, row string) int {
	t.Helper()
	n, err := strconv.Atoi(Figure(t, output, row))
	require.NoError(t, err)
	return n
}

// Seconds is Figure for a time.
func Seconds(t testing.TB, output, row string) float64 {
	t.Helper()
	seconds, err := strconv.ParseFloat(Figure(t, output, row), 64)
	require.NoError(t, err)
	return seconds
}

// NeedZooKeeper skips the test where there is none to run, or fails it, as embedtest does.
func NeedZooKeeper(t testing.TB) {
	t.Helper()
	if _, _, err := embedtest.FindZooKeeper(); err != nil {
		if os.Getenv("FARSYNC_REQUIRE_SERVERS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// NothingIsLeft breaks the program off in several ways once it has said the words, and sees to it that no process is
// left, and no file but where it was killed itself.
func NothingIsLeft(t *testing.T, words string, args ...string) {
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		group  bool // to all processes at once, as from a terminal
		status int
		files  bool // are left
	}{
		{"interrupted", syscall.SIGINT, true, program.Interrupted, false},
		{"terminated", syscall.SIGTERM, false, program.Interrupted, false},
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
			command := Command(t, args...)
			command.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, nil, theirs}
			command.SysProcAttr = &syscall.SysProcAttr{Setpgid: test.group}
			stdout, err := command.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			require.NoError(t, theirs.Close())
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), words) {
			}
			to := command.Process.Pid
			if test.group {
				to = -to
			}
			require.NoError(t, syscall.Kill(to, test.signal))
			_, _ = io.Copy(io.Discard, stdout)
			_ = command.Wait()
			require.Equal(t, test.status, command.ProcessState.ExitCode())
			require.NoError(t, alive.SetReadDeadline(time.Now().Add(30*time.Second)))
			_, err = alive.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "a process is left")
			for _, variable := range command.Env {
				if dir, ok := strings.CutPrefix(variable, "TMPDIR="); ok && !test.files {
					left, err := os.ReadDir(dir)
					require.NoError(t, err)
					require.Empty(t, left)
				} else if ok {
					const most = 16 << 20
					require.Less(t, sizeOf(t, dir), int64(most), "until the next run removes it")
				}
			}
		})
	}
}

// sizeOf returns the bytes of all files below a folder.
func sizeOf(t *testing.T, dir string) (sum int64) {
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	t.Logf("%d KB are left", sum>>10)
	return sum
}

// Flag runs the program with arguments with which it has little to do: it must say so.
func Flag(t *testing.T, args string, status int, says string) {
	t.Run(args, func(t *testing.T) {
		got, out, errs := Run(t, strings.Fields(args)...)
		require.Equal(t, status, got, "%s%s", out, errs)
		require.Contains(t, out+errs, says)
	})
}
