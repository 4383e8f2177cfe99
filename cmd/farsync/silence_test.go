//go:build linux

package main

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// silence is what is said while nothing is granted.
const silence = "nothing is granted for "

// clocks is the line of doctor about the clocks: the server's may be seen behind the host's, where the machine is busy.
var clocks = regexp.MustCompile(`(?m)^ok  clock: .*\n`)

// TestCommandWhileNothingIsGranted: a Redis server that farsync has not used before grants nothing for a TTL. No verb
// says that a lock is taken, or free, or that a server does not answer which does.
func TestCommandWhileNothingIsGranted(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	store := "redis://" + server.Endpoint() + "?ttl=10m"
	for _, row := range []struct {
		line string
		code int
	}{
		{"run -n /x -- true", codeUnavailable},
		{"run -n -E 0 -q /x -- true", codeUnavailable},
		{"run -n -s /rw -- true", codeUnavailable},
		{"run -n --limit 3 /permits -- true", codeUnavailable},
		{"hold -n -E 0 /x", codeUnavailable},
		{"leader /leader", codeUnavailable},
		{"ask /x", codeUnavailable},
		{"break --token 256 --yes /x", codeUnavailable},
		{"who /x", codeUnavailable},
		{"who --json", codeUnavailable},
		{"doctor", codeNothing},
	} {
		p := start(t, store, strings.Fields(row.line)...)
		require.Equal(t, row.code, p.code(t), "%s: %s", row.line, p.err.String())
		said := p.out.String() + p.err.String()
		if row.line == "who --json" {
			require.Contains(t, said, `"silence":{"until":"`)
			continue
		}
		if row.line == "doctor" {
			require.Equal(t, 1, strings.Count(said, "!!"), said)
			said = clocks.ReplaceAllString(said, "")
		}
		require.Contains(t, said, silence, row.line)
		if strings.HasPrefix(row.line, "break") {
			require.Contains(t, said, "farsync: break /x: ")
		}
		for _, wrong := range []string{"locked", "does not answer", "behind", "nobody"} {
			require.NotContains(t, said, wrong, row.line)
		}
	}

	for wait := time.Millisecond; ; wait *= 4 { // where no answer came within the wait, nobody knows why nothing is granted
		p := start(t, store, "run", "-w", wait.String(), "-E", "0", "/x", "--", "true")
		require.Equal(t, codeUnavailable, p.code(t), p.err.String())
		require.NotContains(t, p.err.String(), "behind")
		if strings.Contains(p.err.String(), silence) {
			break
		}
		require.Contains(t, p.err.String(), "the time of --wait has passed")
		require.Less(t, wait, soon, "it hangs")
	}

	plain := start(t, store, "run", "/x", "--", "true")
	until(t, "run says why it waits", func() bool { return strings.Contains(plain.err.String(), "waiting for /x: "+silence) })
	candidate := start(t, store, "elect", "/leader", "--", "true")
	until(t, "elect says why it waits", func() bool { return strings.Contains(candidate.err.String(), "waiting for /leader: "+silence) })
	mute := start(t, store, "run", "-q", "/x", "--", "true")
	watch := start(t, store, "watch")
	until(t, "watch says why nothing holds", func() bool {
		return strings.Contains(watch.err.String(), silence) && strings.Count(watch.out.String(), " /x waits ") == 2
	})
	leader := start(t, store, "leader", "--watch", "/leader")
	until(t, "leader says why nobody is seen", func() bool { return strings.Contains(leader.err.String(), silence) })
	require.Empty(t, leader.out.String(), "nobody knows")
	p := start(t, store, "run", "-n", "/x", "--", "true")
	require.Equal(t, codeUnavailable, p.code(t), "beside waiters: %s", p.err.String())
	require.Equal(t, 1, strings.Count(watch.err.String(), silence))
	for _, p := range []*process{plain, candidate, mute, watch} {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		<-p.done
	}
	require.NotContains(t, mute.err.String(), silence)
	require.NotContains(t, plain.err.String(), "behind")

	// When that is over, all is as ever.
	admin := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	defer admin.Close()
	require.NoError(t, admin.HSet(t.Context(), "farsync:{farsync}:server", "quiet", 0).Err())
	p = start(t, store, "run", "-n", "/x", "--", "farsync", "run", "-n", "/x", "--", "true")
	require.Equal(t, codeTaken, p.code(t), p.err.String())
	require.NotContains(t, p.err.String(), silence)
}

// TestCronOnARedisThatWasJustStarted: with the line of docs/COMMAND.md one of many hosts runs the job, after the TTL
// for which nothing is granted.
func TestCronOnARedisThatWasJustStarted(t *testing.T) {
	suite.Long(t, suite.Command, "waits for a TTL of 2 s, beside 12 processes")
	t.Parallel()
	const hosts = 12
	store := "redis://" + embedtest.Redis(t).Endpoint() + "?ttl=2s"
	jobs := make([]*process, hosts)
	var ended sync.WaitGroup
	ends := make(chan *process, hosts)
	line := only(t, `(?m)^0 3 \* \* \* /usr/local/bin/farsync (.*)$`, block(t, "../../docs/COMMAND.md", "cron", "redis://"))
	line = strings.NewReplacer("--at-least 1m", "--at-least 10m", "/usr/local/bin/backup.sh", "echo ran").Replace(line)
	for i := range jobs {
		p := start(t, store, strings.Fields(line)...)
		jobs[i] = p
		ended.Go(func() {
			<-p.done
			ends <- p
		})
	}
	for range hosts - 1 {
		p := <-ends
		require.Zero(t, p.code(t), p.err.String())
		require.Empty(t, p.out.String(), "another one has run it")
	}
	ran := 0
	for _, p := range jobs {
		ran += strings.Count(p.out.String(), "ran\n")
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	require.Equal(t, 1, ran, "of "+strconv.Itoa(hosts))
	ended.Wait()
}

// TestWaitThatHasPassedBeforeAnAnswer: nobody has said that the lock is taken.
func TestWaitThatHasPassedBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, file(t), "run", "-w", "0.000000001", "-E", "0", "/free", "--", "true")
	require.Equal(t, codeUnavailable, p.code(t), p.err.String())
}
