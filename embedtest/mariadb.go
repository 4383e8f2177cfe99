//go:build unix

package embedtest

import (
	"context"
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

// ErrNoMariaDB says that no MariaDB server can be run here.
var ErrNoMariaDB = errors.New("farsync: no MariaDB server found: apt-get install mariadb-server")

// A MariaDBServer is one MariaDB server, over all its runs. Its user is root, nothing asks for a password, and it has a
// database called test.
type MariaDBServer struct {
	*server

	time *clock // nil: the machine's
}

// mariadbFiles is what mariadb-install-db makes.
var mariadbFiles template

// StartMariaDB starts a MariaDB server that keeps its data and log under dir, which is made if need be, and waits until
// it is ready or ctx is done. A server that finds its data there continues with it. It lives until Close, also when ctx
// is done later; on failure nothing is left running. The error is [ErrNoMariaDB] where there is nothing to run.
//
// Started by root, the server runs as the user nobody, which must be able to reach dir.
func StartMariaDB(ctx context.Context, dir string, options ...Option) (*MariaDBServer, error) {
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoMariaDB, err)
	}
	run, err := exec.LookPath("mariadbd")
	if err != nil {
		// Debian keeps it where only root looks.
		if run, err = exec.LookPath("/usr/sbin/mariadbd"); err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrNoMariaDB, err)
		}
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	with, made := settingsOf(options), &MariaDBServer{}
	if with.clock {
		if made.time, err = newClock(dir, "/"); err != nil {
			return nil, err
		}
	}
	made.server, err = database{
		name: "MariaDB server",
		like: &mariadbFiles,
		install: func(data string) *exec.Cmd {
			command := exec.Command(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal")
			// Its temporary tables are named for its process, and another container may share the folder of the machine.
			command.Env = append(os.Environ(), "TMPDIR="+dir)
			return command
		},
		run: func(data string, at port) *exec.Cmd {
			arguments := []string{
				"--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(at.number), "--bind-address=127.0.0.1",
				"--socket=" + filepath.Join(data, "socket"), "--pid-file=" + filepath.Join(data, "pid"), "--skip-log-bin", "--skip-name-resolve",
				"--tmpdir=" + dir,
			}
			if !with.fsync {
				arguments = append(arguments, "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync")
			}
			for _, line := range with.lines {
				name, value, _ := strings.Cut(line, "=")
				arguments = append(arguments, "--"+strings.TrimSpace(name)+"="+strings.TrimSpace(value))
			}
			command := exec.Command(run, arguments...)
			if made.time != nil {
				command.Env = made.time.environment()
			}
			return command
		},
		ready: greets,
	}.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// StepClock sets the server's clock ahead of the machine's by so much, or behind it if that is negative. It returns at
// once, and whatever the server does then knows of it. The server must have been started with the option [Clock].
func (s *MariaDBServer) StepClock(by time.Duration) error { return s.time.step(by) }

// Close kills the server. Data and log stay. Its error says that the server had ended by itself before.
func (s *MariaDBServer) Close() error { return s.close() }

// DSN returns what clients connect to a database of the server with, in the form of github.com/go-sql-driver/mysql.
func (s *MariaDBServer) DSN(database string) string {
	return "root@tcp(" + s.endpoint + ")/" + database
}

// greets reads what the server says first: the length of it, a number, and the version of the protocol.
func greets(conn net.Conn) error {
	var greeting [5]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		return err
	}
	const version = 10
	if greeting[4] != version {
		return fmt.Errorf("a greeting of version %d", greeting[4])
	}
	return nil
}
