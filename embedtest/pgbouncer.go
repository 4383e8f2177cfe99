//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoPgBouncer says that no PgBouncer can be run here.
var ErrNoPgBouncer = errors.New("farsync: no PgBouncer found: apt-get install pgbouncer")

// A PgBouncerProxy is a PgBouncer before a PostgreSQL server, over all its runs.
type PgBouncerProxy struct {
	*server
}

// StartPgBouncer starts a PgBouncer before a server, and waits until a client reaches the server through it or ctx is
// done. It gives a connection of the server to a client for one transaction, unless a line says otherwise. Lines are
// further ones of its configuration. Its files are under dir, which is made if need be. It lives until Close; on
// failure nothing is left running. The error is [ErrNoPgBouncer] where there is nothing to run.
//
// PgBouncer refuses to run as root. Started by root, it runs as the user nobody, which must be able to reach dir.
func StartPgBouncer(ctx context.Context, dir string, to *PostgresServer, lines ...string) (*PgBouncerProxy, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		// Debian keeps it where only root looks.
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrNoPgBouncer, err)
		}
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	as, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	kept, err := reservePort()
	if err != nil {
		return nil, err
	}
	p := &PgBouncerProxy{&server{
		name: "PgBouncer", endpoint: kept.addr(), ports: []port{kept}, log: filepath.Join(dir, "log"), as: as,
	}}
	p.probe = func(ctx context.Context) error { return p.greeted(ctx, serves) }
	file, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users")
	text := append([]string{
		"[databases]", fmt.Sprint("* = host=127.0.0.1 port=", to.ports[0].number),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprint("listen_port = ", kept.number), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + users, "pool_mode = transaction", "max_client_conn = 4000",
	}, lines...)
	p.command = func() (*exec.Cmd, error) {
		command := exec.Command(program, file)
		command.Dir = dir
		return command, nil
	}
	err = errors.Join(
		os.WriteFile(file, []byte(strings.Join(text, "\n")+"\n"), 0o644),           //nolint:gosec // another user reads it
		os.WriteFile(users, []byte(`"postgres" ""`+"\n"+`"guest" ""`+"\n"), 0o644), //nolint:gosec // another user reads it
	)
	if err == nil {
		err = p.Restart(ctx)
	}
	if err != nil {
		_ = p.close() // err says it all
		return nil, err
	}
	return p, nil
}

// Close ends it. Its error says that it had ended by itself before.
func (p *PgBouncerProxy) Close() error { return p.close() }

// URL returns what clients connect to, in PostgreSQL's form.
func (p *PgBouncerProxy) URL() string {
	return "postgres://postgres@" + p.endpoint + "/postgres?sslmode=disable"
}
