package sqlite

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Sessions wake one another by datagrams between sockets in the directory of the file. A datagram is a hint, and may be
// lost: what it is about stands in the file. The socket of a session is bound before its row is there, its name is never
// used again, and it is unlinked before it is closed. So a socket that is there and refuses is that of a process that has
// died.

const (
	// maxNames is how many names a datagram has. In place of more it says everything.
	maxNames   = 256
	everything = "*"
)

// listen binds a session's socket. It returns nil where that cannot be: on Windows, in a directory of another user, or if
// the path is too long for a socket's.
func (s *service) listen(id string) *net.UnixConn {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: reach(s.sent, id), Net: "unixgram"})
	if err != nil {
		return nil
	}
	return conn
}

// dial connects to the socket of a session, which does not notice.
func (s *service) dial(id string) (*net.UnixConn, error) {
	return net.DialUnix("unixgram", nil, &net.UnixAddr{Name: reach(s.sent, id), Net: "unixgram"})
}

// send tells a session that names have moved.
func (s *service) send(id string, names []string) {
	if in, ok := s.local.Load(id); ok {
		in.(*session).wake(names)
		return
	}
	conn, err := s.dial(id)
	if err != nil {
		return // it polls, or it is dead
	}
	defer func() { _ = conn.Close() }()
	if len(names) > maxNames {
		names = []string{everything}
	}
	// A full socket is that of a session that has enough to look at, or is stopped.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
	_, _ = conn.Write([]byte(strings.Join(names, "\n")))
}

// isDead reports whether the process of a session has died without closing it.
func (s *service) isDead(id string) bool {
	conn, err := s.dial(id)
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

// remove unlinks the socket of a session that is over.
func (s *service) remove(id string) { _ = os.Remove(filepath.Join(s.dir, id)) }

// hear wakes waiters until the socket is closed. It runs in one goroutine.
func (s *session) hear() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := s.ears.Read(buffer)
		if err != nil {
			return
		}
		s.wake(strings.Split(string(buffer[:n]), "\n"))
	}
}

// hush closes the session's socket.
func (s *session) hush() {
	if s.ears != nil {
		s.remove(s.id)
		_ = s.ears.Close()
	}
}
