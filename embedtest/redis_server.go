//go:build unix

package embedtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoRedis says that no Redis server can be run here.
var ErrNoRedis = errors.New("farsync: no Redis server found: apt-get install redis-server")

// A RedisServer is one Redis server, over all its runs. It writes every change to its append-only file before it
// answers, so that a Restart finds all of it. A replica is one with the argument --replicaof.
type RedisServer struct {
	server
	data string // directory
	tls  string // the address at which it speaks TLS
	time *clock // nil: the machine's
}

// StartRedis starts a Redis server that keeps its data and log under dir, which is made if need be, and waits until it
// is ready or ctx is done. A server that finds data there goes on with it. It lives until Close, also when ctx is done
// later; on failure nothing is left running. Arguments are further ones of redis-server; with --tls-cert-file it speaks
// TLS at another address. The error is [ErrNoRedis] where there is nothing to run.
func StartRedis(ctx context.Context, dir string, arguments ...string) (*RedisServer, error) {
	return startRedis(ctx, dir, arguments, false)
}

// StartRedisWithClock is [StartRedis] for a server with a clock of its own, which StepClock sets. The error is
// [ErrNoFaketime] where that cannot be had.
func StartRedisWithClock(ctx context.Context, dir string, arguments ...string) (*RedisServer, error) {
	return startRedis(ctx, dir, arguments, true)
}

// StepClock sets the server's clock ahead of the machine's by so much, or behind it if that is negative. It returns at
// once, and whatever the server does then knows of it.
func (s *RedisServer) StepClock(by time.Duration) error { return s.time.step(by) }

// TLSEndpoint returns the address at which the server speaks TLS, if it was told to.
func (s *RedisServer) TLSEndpoint() string { return s.tls }

func startRedis(ctx context.Context, dir string, arguments []string, apart bool) (*RedisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoRedis, err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &RedisServer{
		server: server{name: "Redis server", log: filepath.Join(dir, "log")},
		data:   filepath.Join(dir, "data"),
	}
	s.probe = s.serving
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return nil, err
	}
	kept, err := reservePort()
	if err != nil {
		return nil, err
	}
	s.ports = []port{kept} // released by Close
	s.endpoint = kept.addr()
	if slices.Contains(arguments, "--tls-cert-file") {
		second, err := reservePort()
		if err != nil {
			kept.release()
			return nil, err
		}
		s.ports = append(s.ports, second)
		s.tls = second.addr()
		arguments = append(slices.Clip(arguments), "--tls-port", strconv.Itoa(second.number))
	}
	if apart {
		if s.time, err = newClock(dir, "/"); err != nil {
			return nil, err
		}
	}
	s.command = func() (*exec.Cmd, error) {
		command := exec.Command(program, append([]string{
			"--port", strconv.Itoa(kept.number), "--bind", "127.0.0.1", "--dir", s.data,
			"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no",
			"--repl-diskless-sync-delay", "0", // a replica need not wait for others to come
		}, arguments...)...)
		command.Dir = s.data
		if apart {
			command.Env = s.time.environment()
		}
		return command, nil
	}
	if err := s.Restart(ctx); err != nil {
		_ = s.Close() // err says it all
		return nil, err
	}
	return s, nil
}

// Forget removes the server's data. The server must have been killed: it finds nothing when it is restarted.
func (s *RedisServer) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return errors.New("embedtest: Forget of a Redis server that runs")
	}
	if err := os.RemoveAll(s.data); err != nil {
		return err
	}
	return os.Mkdir(s.data, 0o700)
}

// Save returns a copy of the data as it is. The server should be paused or dead, so that the copy is of one moment.
func (s *RedisServer) Save() (RedisData, error) {
	saved := RedisData{}
	err := filepath.WalkDir(s.data, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.data, path)
		saved[name] = text
		return err
	})
	return saved, err
}

// RedisData is the data of a Redis server: its files by name.
type RedisData map[string][]byte

// Load is Forget, and puts saved data in the place of the other, as a crash does that loses what was written since.
func (s *RedisServer) Load(saved RedisData) error {
	if err := s.Forget(); err != nil {
		return err
	}
	for name, text := range saved {
		path := filepath.Join(s.data, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Close kills the server and returns when it is gone. Data and log stay. Its error says that the server had ended by
// itself before. Once closed, a server stays closed.
func (s *RedisServer) Close() error { return s.close() }

// serving returns nil once the server has read its data.
func (s *RedisServer) serving(ctx context.Context) error {
	_, err := s.ask(ctx, "PING")
	// A server that wants a password is ready, too.
	if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
		return nil
	}
	return err
}

// ask sends one command, and returns a simple answer or a string. The error is what the server says, if it says no.
func (s *RedisServer) ask(ctx context.Context, command string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.endpoint)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '-':
		return "", errors.New(rest)
	case '$':
		length, err := strconv.Atoi(rest)
		if err != nil || length < 0 {
			return "", err
		}
		text := make([]byte, length)
		_, err = io.ReadFull(reader, text)
		return string(text), err
	}
	return rest, nil
}
