//go:build unix

package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestSignalsArePassedOn: each of them reaches COMMAND, which decides what to make of it.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	p := start(t, file(t), "run", "/x", "--", "catcher")
	until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
	for _, s := range caught {
		require.NoError(t, p.Process.Signal(s))
		name := unix.SignalName(s.(syscall.Signal))
		until(t, "COMMAND gets "+name, func() bool { return strings.Contains(p.out.String(), "got "+name+"\n") })
	}
	require.NoError(t, p.Process.Kill())
	require.Equal(t, codeSignal+int(syscall.SIGKILL), p.code(t))
}

var caught = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// catcher is a COMMAND that says which signals it gets, and exits with 3 when it has got as many as its argument says. bash
// loses one now and then when it forks.
func catcher() {
	c := make(chan os.Signal, len(caught))
	signal.Notify(c, caught...)
	fmt.Println("go")
	enough := 0
	if len(os.Args) > 1 {
		enough, _ = strconv.Atoi(os.Args[1])
	}
	for n := 1; ; n++ {
		fmt.Println("got", unix.SignalName((<-c).(syscall.Signal)))
		if n == enough {
			os.Exit(3)
		}
	}
}

// renewed is a COMMAND that exits with 3 when its lock has been renewed as often as its argument says, or nearly so: the end
// also moves with how late the supervisor is run.
func renewed() {
	fd, err := strconv.Atoi(os.Getenv(guard.Variable))
	check(err)
	word, err := guard.OpenWord(fd)
	check(err)
	ttl, err := time.ParseDuration(os.Getenv("FARSYNC_TTL"))
	check(err)
	times, err := strconv.Atoi(os.Args[1])
	check(err)
	end := func() time.Duration {
		left, _ := word.Left()
		return left + guard.Now()
	}
	look := time.NewTicker(10 * time.Millisecond)
	for first := end(); end() < first+ttl/4*time.Duration(times)-ttl/8; {
		<-look.C
	}
	os.Exit(3)
}

// outliver is what a COMMAND leaves running: it says when farsync has done with that.
func outliver() {
	fd, err := strconv.Atoi(os.Getenv(guard.Variable))
	check(err)
	word, err := guard.OpenWord(fd)
	check(err)
	look := time.NewTicker(5 * time.Millisecond)
	for held := true; held; _, held = word.Left() {
		<-look.C
	}
	fmt.Println("over")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

// TestNohupHolds: a signal that is ignored stays so for COMMAND.
func TestNohupHolds(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `trap '' HUP; exec farsync run /x -- sh -c 'kill -HUP $$; echo alive'`)
	cmd.Env = append(os.Environ(), "FARSYNC_STORE="+file(t))
	out, err := cmd.Output() // alone: on a busy machine standard error has a line about the wait
	require.NoError(t, err, string(out))
	require.Equal(t, "alive\n", string(out))
}

// TestCommandIgnoresWhatTheCallerDoes, and no other signal. The runtime keeps these; of others it does not tell whether they were ignored.
func TestCommandIgnoresWhatTheCallerDoes(t *testing.T) {
	t.Parallel()
	const look = "grep SigIgn /proc/self/status"
	if exec.Command("sh", "-c", look).Run() != nil {
		suite.NotHere(t, "a system that shows which signals a process ignores")
	}
	for _, name := range []string{"", "HUP", "INT", "TSTP", "TTIN", "TTOU", "HUP INT TSTP TTIN TTOU"} {
		line := look + "; exec farsync run /x -- " + look
		if name != "" {
			line = "trap '' " + name + "; " + line
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), "FARSYNC_STORE="+file(t))
		out, err := cmd.Output() // alone: on a busy machine standard error has a line about the wait
		require.NoError(t, err, string(out))
		lines := strings.Split(string(out), "\n")
		require.Len(t, lines, 3)
		require.Equal(t, lines[0], lines[1], name)
	}
}

// TestInheritedDescriptorsAndNoOthers: COMMAND has those that farsync has inherited, under their numbers, and FARSYNC_FD.
func TestInheritedDescriptorsAndNoOthers(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		suite.NotHere(t, "/proc/self/fd")
	}
	for _, store := range []string{file(t), "etcd://" + strings.TrimPrefix(embedtest.Etcd(t).Endpoint(), "http://")} {
		list := func(prefix string) (list []string) {
			cmd := exec.Command("bash", "-c", "exec 3</dev/null 7</dev/zero 42</etc/passwd; exec "+prefix+" ls -l /proc/self/fd")
			cmd.Env = append(os.Environ(), "FARSYNC_STORE="+store)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			for line := range strings.Lines(string(out)) {
				left, file, found := strings.Cut(strings.TrimSpace(line), " -> ")
				number := left[strings.LastIndexByte(left, ' ')+1:]
				switch {
				case !found || strings.HasPrefix(file, "/proc/"): // what ls reads
				case strings.HasPrefix(file, "pipe:"):
					list = append(list, number+" pipe")
				default:
					list = append(list, number+" "+file)
				}
			}
			return list
		}
		want := append(list(""), "100 /memfd:farsync (deleted)") // FARSYNC_FD
		require.ElementsMatch(t, want, list("farsync run /x --"))
	}
}

// make long sets these.
var (
	processes = flag.Int("processes", 6, "how many processes run farsync run -n side by side")
	rounds    = flag.Int("rounds", 6, "how often each of them does")
)

// TestOneOfManyRuns: of many processes that try at the same time never two run COMMAND at once, and those that do not exit
// with 75.
func TestOneOfManyRuns(t *testing.T) {
	suite.Long(t, suite.Command, "processes race, and are counted afterwards")
	t.Parallel()
	for name, store := range map[string]string{
		"sqlite": file(t), "etcd": "etcd://" + strings.TrimPrefix(embedtest.Etcd(t).Endpoint(), "http://"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := filepath.Join(dir, "section")
			// mkdir is atomic: it fails if another is inside.
			require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nmkdir "+dir+"/inside || exit 9\necho ran\nrmdir "+dir+"/inside\n"), 0o700))
			var mu sync.Mutex
			codes := map[int]int{}
			ran := 0
			var all sync.WaitGroup
			for range *processes {
				all.Go(func() {
					for range *rounds {
						cmd := exec.Command("farsync", "run", "-n", "-q", "--ttl", "60s", "/x", "--", script)
						cmd.Env = append(os.Environ(), "FARSYNC_STORE="+store)
						out, _ := cmd.Output()
						mu.Lock()
						codes[cmd.ProcessState.ExitCode()]++
						ran += strings.Count(string(out), "ran")
						mu.Unlock()
					}
				})
			}
			all.Wait()
			require.Equal(t, *processes**rounds, codes[0]+codes[codeTaken], "%v", codes)
			require.Equal(t, codes[0], ran)
			require.Positive(t, codes[0])
			t.Logf("%v", codes)
		})
	}
}

// TestSilentServiceIsGivenUp after --dial-timeout, on every store.
func TestSilentServiceIsGivenUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp4", "127.0.0.1:0") // the kernel accepts for it
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	host := silent.Addr().String()
	var all []*process
	for _, store := range []string{
		"etcd://" + host, "etcd://me:secret@" + host, "zk://" + host, "redis://" + host, "postgres://me:secret@" + host + "/locks",
		"mysql://me:secret@" + host + "/locks",
	} {
		all = append(all, start(t, store, "--dial-timeout", "0.5", "run", "-n", "/x", "--", "true"))
	}
	for _, p := range all {
		require.Equal(t, codeUnavailable, p.code(t), "%s: %s", p.Env[len(p.Env)-1], p.err.String())
		require.NotContains(t, p.err.String(), "secret")
	}
}

// TestPasswordsAreNotShown: neither what farsync says, nor what COMMAND gets, has the password.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	server := embedtest.Redis(t, "--requirepass", password)
	right := "redis://:" + password + "@" + server.Endpoint() + "?fresh=1"
	for _, row := range []struct {
		arguments []string
		code      int
	}{
		{[]string{"-v", "--store", right, "run", "/x", "--", "env"}, 0},
		{[]string{"-v", "--store", right, "who"}, codeNothing},
		{[]string{"-v", "--store", right, "leader", "/x"}, codeNothing},
		{[]string{"-v", "--store", "redis://:wrong-" + password + "@" + server.Endpoint(), "run", "/x", "--", "true"}, codeNoPerm},
		{[]string{"-v", "--store", "redis://" + server.Endpoint(), "run", "/x", "--", "true"}, codeNoPerm},
		{[]string{"--store", "redis://:" + password + "@" + server.Endpoint() + "?db=x", "who"}, codeConfig},
		{[]string{"--store", "redis://:" + password + "/@" + server.Endpoint(), "who"}, codeConfig},
	} {
		p := start(t, "", row.arguments...)
		require.Equal(t, row.code, p.code(t), "%s", p.err.String())
		require.NotContains(t, p.out.String()+p.err.String(), password)
	}
	p := start(t, "", "--store", right, "who")
	p.code(t)
	require.Contains(t, p.err.String(), "others on this machine can read the password")
	// From a file, and by the environment.
	name := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(name, []byte(password+"\n"), 0o600))
	require.Zero(t, start(t, "redis://"+server.Endpoint()+"?fresh=1&password-file="+name, "run", "/x", "--", "true").code(t))
	require.Zero(t, start(t, right, "run", "/x", "--", "true").code(t))
}
