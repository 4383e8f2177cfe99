//go:build unix

package embedtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoRedis says that no Redis server can be run here.
var ErrNoRedis = errors.New("farsync: no Redis server found: apt-get install redis-server")

// A RedisServer is one Redis server, over all its runs. It writes every change to its append-only file before it answers,
// so that a Restart finds all of it.
type RedisServer struct {
	server
	data string // directory
}

// StartRedis starts a Redis server that keeps its data and log under dir, which is made if need be, and waits until it is
// ready or ctx is done. A server that finds data there goes on with it. It lives until Close, also when ctx is done later;
// on failure nothing is left running. Arguments are further ones of redis-server. The error is [ErrNoRedis] where there is
// nothing to run.
func StartRedis(ctx context.Context, dir string, arguments ...string) (*RedisServer, error) {
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
	s.command = func() (*exec.Cmd, error) {
		command := exec.Command(program, append([]string{
			"--port", strconv.Itoa(kept.number), "--bind", "127.0.0.1", "--dir", s.data,
			"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no",
		}, arguments...)...)
		command.Dir = s.data
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

// Close kills the server and returns when it is gone. Data and log stay. Its error says that the server had ended by itself
// before. Once closed, a server stays closed.
func (s *RedisServer) Close() error { return s.close() }

// serving returns nil once the server has read its data.
func (s *RedisServer) serving(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	// A server that wants a password is ready, too.
	if !strings.HasPrefix(reply, "+PONG") && !strings.HasPrefix(reply, "-NOAUTH") {
		return fmt.Errorf("not serving: %s", strings.TrimSpace(reply))
	}
	return nil
}
