package sqlite

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sessions wake one another by datagrams between sockets in the directory of the file. A datagram is a hint, and may be
// lost: what it is about stands in the file. The socket of a session is bound before its row is there, its name is never
// used again, and it is unlinked before it is closed. So a socket that is there and refuses is that of a process that has
// died.

// maxNames is how many names a datagram has. In place of more it has none: the empty name wakes all.
const maxNames = 256

// listen binds a session's socket. It returns nil where that cannot be: on Windows, in a directory of another user, or if
// the path is too long for a socket's.
func (s *service) listen(id string) *net.UnixConn {
	conn, err := net.ListenUnixgram("unixgram", s.address(id))
	if err != nil {
		return nil
	}
	return conn
}

func (s *service) address(id string) *net.UnixAddr {
	return &net.UnixAddr{Name: reach(s.sockets, id), Net: "unixgram"}
}

// hear wakes waiters until the socket is closed. It runs in one goroutine, which Drop joins.
func (s *session) hear() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := s.ears.Read(buffer)
		if err != nil {
			return
		}
		s.Waiters.Wake(strings.Split(string(buffer[:n]), "\n"))
	}
}

// send notifies a session that names have moved. If the session is over, send unlinks its socket.
func (s *session) send(id string, names []string) {
	if len(names) > maxNames {
		names = nil
	}
	switch {
	case id == s.ID:
		s.Waiters.Wake(names)
	case s.ears != nil:
		// A socket that is full is that of a session that has enough to look at, or is stopped.
		_ = s.ears.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, _ = s.ears.WriteToUnix([]byte(strings.Join(names, "\n")), s.service.address(id))
	}
	if slices.Contains(names, "") {
		s.service.unlink(id)
	}
}

// unlink removes the socket of a session that is over, or about to end without a word.
func (s *service) unlink(id string) { _ = os.Remove(filepath.Join(s.dir, id)) }

// isDead reports whether the process of a session has died without closing it. The session does not notice: connecting a datagram
// socket sends nothing. A process that is stopped has its socket still. One without a socket, or with one that this user may
// not reach, is not known to be dead.
func (s *service) isDead(id string) bool {
	conn, err := net.DialUnix("unixgram", nil, s.address(id))
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	// A socket that was closed in order refuses, too, but has been unlinked.
	_, err = os.Lstat(filepath.Join(s.dir, id))
	return err == nil
}
