//go:build unix

package embedtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrNoPostgres says that no PostgreSQL server can be run here.
var ErrNoPostgres = errors.New("farsync: no PostgreSQL server found: apt-get install postgresql, or put initdb and postgres on the PATH")

// A PostgresServer is one PostgreSQL server, over all its runs. Its user and its database are both postgres, and
// nothing asks for a password.
type PostgresServer struct {
	*server

	time *clock // nil: the machine's
}

// clusters is what initdb makes, which takes most of the time that it takes to start a server.
var clusters template

// StartPostgres starts a PostgreSQL server that keeps its data and log under dir, which is made if need be, and waits
// until it is ready or ctx is done. A server that finds its data there continues with it. It lives until Close, also
// when ctx is done later; on failure nothing is left running. The error is [ErrNoPostgres] where there is nothing to
// run.
//
// PostgreSQL refuses to run as root. Started by root, the server runs as the user nobody, which must be able to reach
// dir.
func StartPostgres(ctx context.Context, dir string, options ...Option) (*PostgresServer, error) {
	return startPostgres(ctx, dir, options, &clusters, func(programs, data string) *exec.Cmd {
		return exec.Command(filepath.Join(programs, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
			"--locale=C", "--no-sync", "--no-instructions")
	})
}

// StartReplica starts a streaming replica of the server, with data and log under dir, as [StartPostgres] does. It
// continues when the server is dead. The function pg_promote of PostgreSQL makes it a server of its own.
func (s *PostgresServer) StartReplica(ctx context.Context, dir string, options ...Option) (*PostgresServer, error) {
	return startPostgres(ctx, dir, options, nil, func(programs, data string) *exec.Cmd {
		return exec.Command(filepath.Join(programs, "pg_basebackup"), "-D", data, "-d", s.URL(), "-R", "-X", "stream",
			"-c", "fast", "--no-sync")
	})
}

func startPostgres(
	ctx context.Context, dir string, options []Option, like *template, install func(programs, data string) *exec.Cmd,
) (*PostgresServer, error) {
	programs, err := findPostgres()
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	with, made := settingsOf(options), &PostgresServer{}
	if with.clock {
		if made.time, err = newClock(dir, "/"); err != nil {
			return nil, err
		}
	}
	made.server, err = database{
		name:    "PostgreSQL server",
		install: func(data string) *exec.Cmd { return install(programs, data) },
		like:    like,
		run: func(data string, at port) *exec.Cmd {
			arguments := []string{
				"-D", data, "-p", strconv.Itoa(at.number), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			}
			if !with.fsync {
				arguments = append(arguments, "-c", "fsync=off")
			}
			for _, line := range with.lines {
				name, value, _ := strings.Cut(line, "=")
				arguments = append(arguments, "-c", strings.TrimSpace(name)+"="+strings.TrimSpace(value))
			}
			command := exec.Command(filepath.Join(programs, "postgres"), arguments...)
			if made.time != nil {
				command.Env = made.time.environment()
			}
			return command
		},
		ready: serves,
	}.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// StepClock sets the server's clock ahead of the machine's by so much, or behind it if that is negative. It returns at
// once, and whatever the server does then knows of it. The server must have been started with the option [Clock].
func (s *PostgresServer) StepClock(by time.Duration) error { return s.time.step(by) }

// Close ends the server. Data and log stay. Its error says that the server had ended by itself before.
func (s *PostgresServer) Close() error {
	// Killed, it would leave a segment of shared memory in the system, which the next run on the same data removes.
	const patience = 10 * time.Second
	s.quit(patience)
	return s.close()
}

// URL returns what clients connect to, in PostgreSQL's form.
func (s *PostgresServer) URL() string {
	return "postgres://postgres@" + s.endpoint + "/postgres?sslmode=disable"
}

// findPostgres returns the folder of initdb and postgres: the folder in the PATH, else the newest of Debian's packages.
func findPostgres() (string, error) {
	initdb, err := exec.LookPath("initdb")
	if err == nil {
		// The programs that it is installed with are beside it, and need not be on the PATH.
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
			return filepath.Dir(initdb), nil
		}
	}
	packaged, globErr := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(packaged) == 0 {
		return "", fmt.Errorf("%w (%w)", ErrNoPostgres, errors.Join(err, globErr))
	}
	return filepath.Dir(packaged[len(packaged)-1]), nil
}

// serves opens a session, which a server refuses while it starts.
func serves(conn net.Conn) error {
	const version = 3 << 16
	startup := binary.BigEndian.AppendUint32(nil, version)
	startup = append(startup, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(startup)+4)), startup...)); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if answer[0] != 'R' { // the request for a password, which is none
		return fmt.Errorf("an answer of the kind %q", answer[0])
	}
	return nil
}
