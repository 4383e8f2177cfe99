//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// foreign returns the path of another program that takes part in the queues, and fails or skips the test where there is none.
func foreign(t *testing.T, program, found string) string {
	path, err := exec.LookPath(program)
	if err == nil && found != "" {
		_, err = os.Stat(found)
	}
	if err != nil && os.Getenv("FARSYNC_REQUIRE_SERVERS") == "1" {
		require.NoError(t, err, "scripts/servers.sh installs it")
	}
	if err != nil {
		t.Skip(err)
	}
	return path
}

// etcdctl starts etcdctl lock.
func etcdctl(t *testing.T, address, path string, command ...string) *process {
	program := foreign(t, "etcdctl", "")
	return startAs(t, "", "env", append([]string{
		"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + address, program, "lock", path,
	}, command...)...)
}

// queueOf waits until so many hold the lock or wait for it.
func queueOf(t *testing.T, store, path string, count int) {
	until(t, fmt.Sprintf("%s has %d in its queue", path, count), func() bool {
		p := start(t, store, "who", "--json", path)
		p.code(t)
		return strings.Count(p.out.String(), `"holder"`) == count
	})
}

// TestQueueIsSharedWithEtcdctl: etcdctl lock waits for farsync run, and the other way round.
func TestQueueIsSharedWithEtcdctl(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(embedtest.Etcd(t).Endpoint(), "http://")
	store := "etcd://" + address + "?ttl=60s"
	gate := t.TempDir() + "/gate"
	require.NoError(t, exec.Command("mkfifo", gate).Run())
	open := func() { require.NoError(t, os.WriteFile(gate, []byte("go\n"), 0)) } // waits for a reader

	ours := start(t, store, "run", "/x", "--", "cat", gate)
	queueOf(t, store, "/x", 1)
	theirs := etcdctl(t, address, "/x", "cat", gate)
	queueOf(t, store, "/x", 2)
	require.Equal(t, codeTaken, start(t, store, "run", "-n", "/x", "--", "true").code(t))
	last := start(t, store, "run", "/x", "--", "echo", "last")
	queueOf(t, store, "/x", 3)
	open()
	require.Zero(t, ours.code(t))
	queueOf(t, store, "/x", 2)
	require.Empty(t, last.out.String(), "etcdctl came before")
	open()
	require.Zero(t, theirs.code(t), theirs.err.String())
	require.Zero(t, last.code(t))
	require.Equal(t, "last\n", last.out.String())
}

// TestQueueIsSharedWithCurator: an InterProcessMutex waits for farsync run, and the other way round.
func TestQueueIsSharedWithCurator(t *testing.T) {
	t.Parallel()
	const jar = "/usr/share/java/curator-recipes.jar"
	java := foreign(t, "java", jar)
	server := embedtest.ZooKeeper(t)
	store := "zk://" + server.Endpoint()
	curator := exec.Command(java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", jar+":/usr/share/java/slf4j-simple.jar", "../../internal/zktest/testdata/Curator.java", server.Endpoint(), "10000")
	commands, err := curator.StdinPipe()
	require.NoError(t, err)
	answers, err := curator.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, curator.Start())
	t.Cleanup(func() {
		_ = curator.Process.Kill()
		_ = curator.Wait()
	})
	lines := bufio.NewScanner(answers)
	says := func(want string) {
		for lines.Scan() && strings.HasPrefix(lines.Text(), "state ") {
			continue
		}
		require.NoError(t, lines.Err())
		require.Equal(t, "one "+want, lines.Text())
	}
	tell := func(what string) {
		_, err := fmt.Fprintf(commands, "one %s /x\n", what)
		require.NoError(t, err)
	}

	tell("lock")
	says("locked")
	require.Equal(t, codeTaken, start(t, store, "run", "-n", "/x", "--", "true").code(t))
	ours := start(t, store, "run", "/x", "--", "cat", "/dev/stdin")
	queueOf(t, store, "/x", 2)
	tell("unlock")
	says("unlocked")
	require.Zero(t, ours.code(t), ours.err.String())

	held := startAs(t, store, "sh", "-c", "mkfifo $0; exec farsync run /x -- cat $0", t.TempDir()+"/gate")
	queueOf(t, store, "/x", 1)
	tell("lock")
	queueOf(t, store, "/x", 2)
	require.NoError(t, os.WriteFile(held.Args[len(held.Args)-1], nil, 0))
	require.Zero(t, held.code(t), held.err.String())
	says("locked")
	tell("unlock")
	says("unlocked")
}

// TestColdRunTakesFewRoundTrips: at most three times those of etcdctl lock x true. A connection is one, and so is each message that the
// client sends.
func TestColdRunTakesFewRoundTrips(t *testing.T) {
	suite.Long(t, suite.Command, "counts traffic while timers may fire")
	t.Parallel()
	address := strings.TrimPrefix(embedtest.Etcd(t).Endpoint(), "http://")
	count := func(run func(address string) *process) int64 {
		var trips atomic.Int64
		to := relay(t, address, func(to io.Writer, from io.Reader) {
			trips.Add(1)
			countMessages(&trips, to, from)
		}, copyAll)
		require.Zero(t, run(to).code(t))
		return trips.Load()
	}
	theirs := count(func(address string) *process { return etcdctl(t, address, "/theirs", "true") })
	ours := count(func(address string) *process { return start(t, "etcd://"+address, "run", "/ours", "--", "true") })
	t.Logf("farsync run takes %d round trips, etcdctl lock %d", ours, theirs)
	require.Positive(t, theirs)
	require.LessOrEqual(t, ours, 3*theirs)
}

// countMessages passes on what a client of gRPC sends, and counts its messages: small ones are a DATA frame of HTTP/2 each.
func countMessages(n *atomic.Int64, to io.Writer, from io.Reader) {
	const preface, header, data = 24, 9, 0
	if _, err := io.CopyN(to, from, preface); err != nil {
		return
	}
	for head := make([]byte, header); ; {
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(append([]byte{0}, head[:3]...))
		if head[3] == data && length > 0 {
			n.Add(1)
		}
		if _, err := io.CopyN(to, io.MultiReader(bytes.NewReader(head), from), header+int64(length)); err != nil {
			return
		}
	}
}

func copyAll(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) }

// relay returns the address of a proxy that passes on by these functions. It ends with the test, and its connections with those
// on either side.
func relay(t *testing.T, address string, requests, replies func(to io.Writer, from io.Reader)) string {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var passing sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		passing.Wait()
	})
	passing.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				_ = near.Close()
				continue
			}
			pass := func(to, from net.Conn, by func(to io.Writer, from io.Reader)) {
				defer to.Close()
				defer from.Close()
				by(to, from)
			}
			passing.Go(func() { pass(far, near, requests) })
			passing.Go(func() { pass(near, far, replies) })
		}
	})
	return listener.Addr().String()
}
