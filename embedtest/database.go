//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// A database is a server that makes its files by a program of its own, before its first run.
type database struct {
	name    string
	install func(data string) *exec.Cmd
	like    *template // of what install makes; nil: it is different for each
	run     func(data string, at port) *exec.Cmd
	ready   func(net.Conn) error
	asSelf  bool // it may run as root
}

// start lays out the files under dir if there are none yet, and starts the server.
func (d database) start(ctx context.Context, dir string) (*server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var as *syscall.Credential
	if !d.asSelf {
		if as, err = unprivileged(dir); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		if err := d.lay(dir, data, as); err != nil {
			return nil, fmt.Errorf("embedtest: make the files of %s: %w", d.name, err)
		}
	}
	kept, err := reservePort()
	if err != nil {
		return nil, err
	}
	s := &server{
		name: d.name, endpoint: kept.addr(), ports: []port{kept}, log: filepath.Join(dir, "log"), as: as,
		command: func() (*exec.Cmd, error) {
			command := d.run(data, kept)
			command.Dir = dir
			return command, nil
		},
	}
	s.probe = func(ctx context.Context) error { return s.greeted(ctx, d.ready) }
	if err := s.Restart(ctx); err != nil {
		_ = s.close() // err says it all
		return nil, err
	}
	return s, nil
}

// lay makes the files.
func (d database) lay(dir, data string, as *syscall.Credential) error {
	install := func() error {
		command := d.install(data)
		command.Dir, command.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, said)
		}
		return nil
	}
	if d.like == nil {
		return install()
	}
	return d.like.lay(data, as, install)
}

// greeted has a short conversation with the server.
func (s *server) greeted(ctx context.Context, talk func(net.Conn) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return err
		}
	}
	return talk(conn)
}

// unprivileged returns the user that servers run as which refuse to run as root, and gives it the folder. For any other
// user it is nil: the servers run as that user.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // no other user is needed
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("embedtest: no user for the server: %w", err)
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}
