//go:build unix

package embedtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// A ZooKeeperServer is one ZooKeeper server, over all its runs.
type ZooKeeperServer struct {
	server

	time *clock // nil: the machine's
}

// StepClock sets the server's clock ahead of the machine's by so much, or behind it if that is negative. It returns at
// once, and whatever the server does then knows of it. The server must have been started with the option [Clock].
func (s *ZooKeeperServer) StepClock(by time.Duration) error { return s.time.step(by) }

// FourLetter sends the server one of ZooKeeper's four letter words, such as mntr, srvr, cons, wchp or dump, and returns
// the whole reply. ctx bounds the call. All words are allowed.
func (s *ZooKeeperServer) FourLetter(ctx context.Context, word string) (string, error) {
	var reply []byte
	err := s.talk(ctx, func(conn net.Conn) error {
		if _, err := io.WriteString(conn, word); err != nil {
			return err
		}
		var err error
		reply, err = io.ReadAll(conn)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("embedtest: %s of %s: %w", word, s.name, err)
	}
	return string(reply), nil
}

// mode returns what the server says it is: standalone, leader, follower. ruok answers long before it serves anything.
func (s *ZooKeeperServer) mode(ctx context.Context) (string, error) {
	reply, err := s.FourLetter(ctx, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(reply) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("not serving: %s", strings.TrimSpace(reply))
}

func (s *ZooKeeperServer) serving(ctx context.Context) error {
	_, err := s.mode(ctx)
	return err
}

// commits opens a session and closes it again. Both are proposals: a server answers them only if a majority has agreed.
func (s *ZooKeeperServer) commits(ctx context.Context) error {
	const (
		passwordLength = 16
		timeoutMillis  = 10_000
	)
	closeSession := int32(-11)
	return s.talk(ctx, func(conn net.Conn) error {
		var open []byte
		open = binary.BigEndian.AppendUint32(open, 0) // protocol version
		open = binary.BigEndian.AppendUint64(open, 0) // last zxid seen
		open = binary.BigEndian.AppendUint32(open, timeoutMillis)
		open = binary.BigEndian.AppendUint64(open, 0) // session: a new one
		open = binary.BigEndian.AppendUint32(open, passwordLength)
		open = append(open, make([]byte, passwordLength)...)
		open = append(open, 0) // not read-only
		reply, err := exchange(conn, open)
		if err != nil {
			return err
		}
		if len(reply) < 16 || binary.BigEndian.Uint64(reply[8:]) == 0 {
			return errors.New("no session")
		}
		leave := binary.BigEndian.AppendUint32(nil, 1) // number of the request
		leave = binary.BigEndian.AppendUint32(leave, uint32(closeSession))
		_, err = exchange(conn, leave)
		return err
	})
}

// talk has a conversation on a connection of its own, which ends when ctx is done.
func (s *ZooKeeperServer) talk(ctx context.Context, talk func(net.Conn) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.endpoint)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = talk(conn)
	if !stop() {
		return context.Cause(ctx)
	}
	_ = conn.Close()
	return err
}

// exchange sends a request and returns the reply to it. Both are preceded by their length.
func exchange(conn net.Conn, request []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	const most = 1 << 10
	n := binary.BigEndian.Uint32(length[:])
	if n > most {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	reply := make([]byte, n)
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
