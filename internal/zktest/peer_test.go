package zktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
)

// A peer is a program in another language that locks what it is told. See testdata.
type peer struct {
	stdin io.Writer

	mu      sync.Mutex
	threads map[string]chan string // what each of its threads answers
}

const (
	curatorJar = "/usr/share/java/curator-recipes.jar" // its manifest names what else it needs
	slf4jJar   = "/usr/share/java/slf4j-simple.jar"
	python     = "/usr/bin/python3"
)

// newJava starts a Java program that uses Curator.
func newJava(t testing.TB, program, servers string) *peer {
	t.Helper()
	for _, file := range []string{curatorJar, slf4jJar} {
		if _, err := os.Stat(file); err != nil {
			missing(t, fmt.Errorf("no Java Curator found: apt-get install libcurator-recipes-java libslf4j-java (%w)", err))
		}
	}
	if _, err := exec.LookPath("javac"); err != nil {
		missing(t, fmt.Errorf("no Java compiler found: apt-get install default-jdk-headless (%w)", err))
	}
	return newPeer(t, exec.Command("java",
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", curatorJar+":"+slf4jJar, program, servers, "10000",
	))
}

// newKazoo starts Python's kazoo. servers may have a chroot.
func newKazoo(t testing.TB, servers string) *peer {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import kazoo").CombinedOutput(); err != nil {
		missing(t, fmt.Errorf("no kazoo found: apt-get install python3-kazoo (%w) %s", err, out))
	}
	return newPeer(t, exec.Command(python, "testdata/kazoo_peer.py", servers, "10000"))
}

// newPeer starts the program, and kills it when t ends.
func newPeer(t testing.TB, command *exec.Cmd) *peer {
	t.Helper()
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Stderr = t.Output()
	require.NoError(t, command.Start())
	p := &peer{stdin: stdin, threads: map[string]chan string{}}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			thread, said, _ := strings.Cut(lines.Text(), " ")
			p.thread(thread) <- said
		}
	})
	t.Cleanup(func() {
		_ = command.Process.Kill()
		reading.Wait()
		_ = command.Wait()
	})
	return p
}

func (p *peer) thread(name string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.threads[name] == nil {
		p.threads[name] = make(chan string, 1000)
	}
	return p.threads[name]
}

// ask gives a thread a command.
func (p *peer) ask(t testing.TB, thread string, words ...any) {
	t.Helper()
	_, err := fmt.Fprintln(p.stdin, append([]any{thread}, words...)...)
	require.NoError(t, err)
}

// says waits until a thread has said that, and nothing else.
func (p *peer) says(t testing.TB, thread, want string) {
	t.Helper()
	select {
	case said := <-p.thread(thread):
		require.Equal(t, want, said)
	case <-time.After(2 * soon):
		require.FailNow(t, "no answer", "%s was to say %s", thread, want)
	}
}

// A contender locks and unlocks, wherever it runs.
type contender interface {
	// lock begins to lock. The channel is sent nil, or the error, when it has.
	lock(t testing.TB, path string) <-chan error
	unlock(t testing.TB, path string)
}

// peerContender is a thread of a peer.
type peerContender struct {
	*peer
	name string
}

func (c peerContender) lock(t testing.TB, path string) <-chan error {
	c.ask(t, c.name, "lock", path)
	done := make(chan error, 1)
	go func() { // ends with the peer, at the latest
		if said := <-c.thread(c.name); said != "locked" {
			done <- errors.New(said)
		} else {
			done <- nil
		}
	}()
	return done
}

func (c peerContender) unlock(t testing.TB, path string) {
	c.ask(t, c.name, "unlock", path)
	c.says(t, c.name, "unlocked")
}

// zkLock is the client library's own lock.
type zkLock struct {
	conn  *client.Conn
	locks map[string]*client.Lock
}

func newZKLock(t testing.TB, server string) zkLock {
	return zkLock{newConn(t, server), map[string]*client.Lock{}}
}

func (c zkLock) lock(_ testing.TB, path string) <-chan error {
	l := client.NewLock(c.conn, path, client.WorldACL(client.PermAll))
	c.locks[path] = l
	done := make(chan error, 1)
	go func() { done <- l.Lock() }() // ends at the latest with its connection
	return done
}

func (c zkLock) unlock(t testing.TB, path string) { require.NoError(t, c.locks[path].Unlock()) }

// ours is a Store of farsync's.
type ours struct {
	store  *farsync.Store
	leases map[string]chan *farsync.Lease
}

func newOurs(store *farsync.Store) ours { return ours{store, map[string]chan *farsync.Lease{}} }

func (c ours) lock(t testing.TB, path string) <-chan error {
	leases := make(chan *farsync.Lease, 1)
	c.leases[path] = leases
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	go func() { // ends at the latest with its context
		defer cancel()
		lease, err := farsync.NewMutex(c.store, path).Lock(locktest.Apart(ctx))
		leases <- lease
		done <- err
	}()
	return done
}

func (c ours) unlock(t testing.TB, path string) { require.NoError(t, got(t, c.leases[path]).Release()) }
