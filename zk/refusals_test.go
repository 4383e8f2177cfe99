package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A reply is what a scripted server answers, or that it hangs up instead.
type reply struct {
	code   int32
	body   []byte
	hangUp bool
}

// scripted returns a session with a server that opens it and answers as it is told, closed by t. Connections are counted from 0, and
// there is none before the server is up.
func scripted(t *testing.T, up *atomic.Bool, script func(connection int, op int32) reply) *session {
	var servers sync.WaitGroup
	made := 0 // only the goroutine of the session dials
	w := newWire(10*time.Second, 0, func(context.Context, string, string) (net.Conn, error) {
		if up != nil && !up.Load() {
			return nil, errors.New("it is down")
		}
		server, conn := net.Pipe()
		connection := made
		made++
		servers.Go(func() { // ends with the client's end
			defer server.Close()
			_ = play(server, func(op int32) reply { return script(connection, op) })
		})
		return conn, nil
	})
	s := (&service{servers: []string{"127.0.0.1:1"}, log: slog.New(slog.DiscardHandler)}).connect(w)
	t.Cleanup(func() {
		s.Drop()
		servers.Wait()
	})
	return s
}

// play answers what comes on a connection.
func play(conn net.Conn, script func(op int32) reply) error {
	answer := append(numbers(37, 0, 10_000, 0, 7, 16, 0, 0, 0, 0), 0)
	for zxid := uint32(1); ; zxid++ {
		var length [4]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return err
		}
		request := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(conn, request); err != nil {
			return err
		}
		if answer == nil {
			r := script(int32(binary.BigEndian.Uint32(request[4:])))
			if r.hangUp {
				return nil
			}
			xid := binary.BigEndian.Uint32(request)
			answer = append(numbers(uint32(headerSize+len(r.body)), xid, 0, zxid, uint32(r.code)), r.body...)
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
		answer = nil
	}
}

// soon returns a context that ends when a test hangs.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestTransactionOfAnExpiredSessionEndsIt: the server answers a transaction with the errors of its parts, and that of an expired session is
// one of them. It proves no renewal, and all that use the session learn of it.
func TestTransactionOfAnExpiredSessionEndsIt(t *testing.T) {
	expired := append(append(numbers(0xffffffff), 0), numbers(0xffffff90, 0xffffff90)...)
	s := scripted(t, nil, func(int, int32) reply { return reply{body: expired} })
	err := s.Renew(soon(t), []driver.Entry{{ID: "/a/b"}})
	require.Equal(t, driver.Expired, outcome(err))
	require.True(t, happened(s.Over()), "the session is over")
	require.ErrorIs(t, context.Cause(s.wire.life), errExpired)
}

// TestRefusedEndOfASessionIsNotConfirmed: its entries are there until it runs out.
func TestRefusedEndOfASessionIsNotConfirmed(t *testing.T) {
	for code, confirmed := range map[int32]bool{0: true, errExpiry: true, -127: false, -118: false} {
		s := scripted(t, nil, func(int, int32) reply { return reply{code: code} })
		require.NoError(t, s.until(soon(t), s.wire.open))
		require.Equal(t, confirmed, s.Close(soon(t)) == nil, code)
	}
}

// TestNodeOfAnotherNameIsNone: what is taken for an entry is read and deleted later, and is taken apart.
func TestNodeOfAnotherNameIsNone(t *testing.T) {
	for _, name := range []string{"lock-0000000001", "/q/lock-0000000001", ""} {
		s := scripted(t, nil, func(_ int, op int32) reply {
			if op != opCreate {
				return reply{code: errNoNode}
			}
			return reply{body: append(numbers(uint32(len(name))), name...)}
		})
		e := driver.Entry{Queue: "/q", ID: s.NewID("/q", driver.Write, 1), Kind: driver.Write, Units: 1}
		v, err := s.Create(soon(t), e, 0)
		require.Error(t, err, v.Self.ID)
		require.Equal(t, driver.Unknown, outcome(err))
	}
}

// TestWatchesThatAreNotSetAgainFire: a server that has too many requests refuses that one like any other. What was waited for may have
// happened meanwhile, and no event will tell.
func TestWatchesThatAreNotSetAgainFire(t *testing.T) {
	for _, e := range []driver.Entry{{}, {Queue: "/q", ID: "/q/b", Kind: driver.Exclusive}} { // what waits for the list that follows an event, too
		watchesThatAreNotSetAgainFire(t, e)
	}
}

func watchesThatAreNotSetAgainFire(t *testing.T, e driver.Entry) {
	stands, lost := make(chan struct{}), make(chan struct{})
	node := append(numbers(0), make([]byte, statSize)...)
	binary.BigEndian.PutUint64(node[4+44:], 8) // ephemeral
	s := scripted(t, nil, func(connection int, op int32) reply {
		switch {
		case op == opSetWatches:
			return reply{code: -127}
		case op == opSync && connection == 0:
			close(lost)
			return reply{hangUp: true}
		}
		return reply{body: node}
	})
	ended := make(chan error, 1)
	ctx := soon(t)
	go func() { // ends with its context
		proof, err := s.Watch(ctx, e, []driver.Target{{Entry: driver.Entry{ID: "/q/a"}}}, func() { close(stands) })
		if proof != nil {
			err = errors.New("it proves nothing")
		}
		ended <- err
	}()
	require.NoError(t, s.until(ctx, stands))
	_ = s.Renew(ctx, nil)
	require.True(t, happened(lost))
	require.NoError(t, <-ended)
}

// TestWatchesAreSetAgainInRequestsThatAServerTakes: one of 1 MiB is refused, with the connection.
func TestWatchesAreSetAgainInRequestsThatAServerTakes(t *testing.T) {
	w := newWire(time.Second, 0, nil)
	s := &session{service: &service{}, wire: w, reads: map[spot]*read{}}
	long := strings.Repeat("/"+strings.Repeat("n", 127), 16)
	for i := range 1000 {
		r := &read{call: *newCall(newFrame(opGetData)), at: spot{opGetData, fmt.Sprintf("%s/_c_%0100d", long, i), true}}
		close(r.done)
		s.reads[r.at] = r
	}
	l := newLink(w, nil)
	s.restore(l)
	require.Len(t, l.calls, l.restoring)
	for _, c := range l.calls {
		require.Less(t, len(c.frame), 1<<20)
	}
}
