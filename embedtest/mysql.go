//go:build unix

package embedtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoMySQL says that no MySQL server can be run here.
var ErrNoMySQL = errors.New("farsync: no MySQL server found: make server-versions unpacks one, or name the folder of one in " +
	mysqlVariable)

// mysqlVariable names the environment variable that says which MySQL servers run, as [Version] does.
const mysqlVariable = "FARSYNC_MYSQL"

// mysqlVersion is what runs where nothing else is asked for.
const mysqlVersion = "9.7"

// A MySQLServer is one MySQL server, over all its runs. Its user is root, nothing asks for a password, it has a
// database called test, and no certificate, so it offers no TLS.
type MySQLServer struct {
	*server

	time *clock // nil: the machine's
}

// mysqlFiles is what MySQL makes before its first run, which takes most of the time that it takes to start a server.
var mysqlFiles template

// StartMySQL starts a MySQL server that keeps its data and log under dir, which is made if need be, and waits until it
// is ready or ctx is done. A server that finds its data there continues with it. It lives until Close, also when ctx is
// done later; on failure nothing is left running. The error is [ErrNoMySQL] where there is nothing to run.
//
// MySQL is not looked for on the PATH, where a program of its name may be MariaDB's: [Version] says where. The server
// runs as the user of this process.
func StartMySQL(ctx context.Context, dir string, options ...Option) (*MySQLServer, error) {
	with, made := settingsOf(options), &MySQLServer{}
	programs, err := findMySQL(cmp.Or(with.version, os.Getenv(mysqlVariable), mysqlVersion))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if with.clock {
		if made.time, err = newClock(dir, programs.libraries); err != nil {
			return nil, err
		}
	}
	// A server lets root in from localhost alone, and knows only the address of a connection.
	first := filepath.Join(dir, "first.sql")
	const words = "CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\nCREATE DATABASE test;\n"
	if err := os.WriteFile(first, []byte(words), 0o600); err != nil {
		return nil, err
	}
	made.server, err = database{
		name: "MySQL server",
		install: func(data string) *exec.Cmd {
			return programs.command("--initialize-insecure", "--datadir="+data, "--init-file="+first, "--tmpdir="+dir, "--auto-generate-certs=OFF",
				"--innodb-redo-log-capacity="+redo, "--innodb-doublewrite=OFF", "--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF",
				"--skip-log-bin")
		},
		like: &mysqlFiles,
		run: func(data string, at port) *exec.Cmd {
			arguments := []string{
				"--datadir=" + data, "--port=" + strconv.Itoa(at.number), "--bind-address=127.0.0.1", "--socket=" + filepath.Join(data, "socket"),
				"--pid-file=" + filepath.Join(data, "pid"), "--skip-log-bin", "--skip-name-resolve", "--tmpdir=" + dir, "--mysqlx=OFF",
				"--secure-file-priv=", "--auto-generate-certs=OFF", "--innodb-redo-log-capacity=" + redo,
			}
			if !with.fsync {
				arguments = append(arguments, "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=OFF")
			}
			for _, line := range with.lines {
				name, value, _ := strings.Cut(line, "=")
				arguments = append(arguments, "--"+strings.TrimSpace(name)+"="+strings.TrimSpace(value))
			}
			command := programs.command(arguments...)
			if made.time != nil {
				// The library's own waits, which are for an older libc, keep this server busy for a minute while it
				// starts.
				command.Env = append(made.time.environment(), "FAKETIME_FORCE_MONOTONIC_FIX=0")
			}
			return command
		},
		ready:  greets,
		asSelf: true, // perhaps no other user reaches the folder of its programs
	}.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// redo is the room for what has not been written to tables yet. It is made before the first run.
const redo = "32M"

// StepClock sets the server's clock ahead of the machine's by so much, or behind it if that is negative. It
// returns at once, and whatever the server does then knows of it. The server must have been started with the option
// [Clock].
func (s *MySQLServer) StepClock(by time.Duration) error { return s.time.step(by) }

// Close kills the server. Data and log stay. Its error says that the server had ended by itself before.
func (s *MySQLServer) Close() error { return s.close() }

// DSN returns what clients connect to a database of the server with, in the form of github.com/go-sql-driver/mysql.
func (s *MySQLServer) DSN(database string) string { return "root@tcp(" + s.endpoint + ")/" + database }

// A mysqlFolder is where a MySQL server lies.
type mysqlFolder struct {
	program   string
	loader    string   // beside its libraries; empty: it runs with the machine's libraries
	libraries string   // the folder above them
	flags     []string // where the rest of it lies
}

// findMySQL returns the folder of a server: a folder that is named, or the folder of a version which
// scripts/server-versions.sh has unpacked.
func findMySQL(which string) (mysqlFolder, error) {
	root := which
	if !strings.ContainsRune(which, filepath.Separator) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return mysqlFolder{}, fmt.Errorf("%w (%w)", ErrNoMySQL, err)
		}
		root = filepath.Join(cache, "farsync", "servers", "mysql-"+which)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return mysqlFolder{}, err
	}
	packaged, released := filepath.Join(root, "usr", "sbin", "mysqld"), filepath.Join(root, "bin", "mysqld")
	if _, err := exec.LookPath(packaged); err != nil {
		if _, err := exec.LookPath(released); err != nil {
			return mysqlFolder{}, fmt.Errorf("%w (neither usr/sbin/mysqld nor bin/mysqld in %s)", ErrNoMySQL, root)
		}
		return mysqlFolder{program: released, libraries: "/", flags: []string{"--basedir=" + root}}, nil
	}
	share := filepath.Join(root, "usr", "share", "mysql")
	found := mysqlFolder{program: packaged, libraries: "/", flags: []string{
		"--basedir=" + filepath.Join(root, "usr"), "--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets"),
		"--plugin-dir=" + filepath.Join(root, "usr", "lib", "mysql", "plugin"),
	}}
	// It was linked with a libc that may be newer than the machine's, which lies beside it.
	if loaders, _ := filepath.Glob(filepath.Join(root, "usr", "lib", "*", "ld-linux*.so.*")); len(loaders) > 0 { // the pattern is a good one
		found.loader, found.libraries = loaders[0], root
	}
	return found, nil
}

// command runs the server.
func (f mysqlFolder) command(arguments ...string) *exec.Cmd {
	arguments = slices.Concat([]string{"--no-defaults"}, f.flags, arguments)
	if os.Getuid() == 0 {
		arguments = append(arguments, "--user=root") // it refuses root unless that is meant
	}
	if f.loader == "" {
		return exec.Command(f.program, arguments...)
	}
	return exec.Command(f.loader, slices.Concat(
		[]string{"--argv0", f.program, "--library-path", filepath.Dir(f.loader), f.program}, arguments)...)
}
