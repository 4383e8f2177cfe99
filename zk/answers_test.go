package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
)

// asks are what a server can be asked, and answers as it likes.
var asks = []frame{
	append(newFrame(opGetChildren).text("/a"), 0),
	append(newFrame(opGetData).text("/a"), 0),
	append(newFrame(opGetData).text("/a"), 1),
	append(newFrame(opExists).text("/a"), 1),
	newFrame(opGetACL).text("/a"),
	syncing("/a"),
	newFrame(opCreate).create("/a", nil, client.WorldACL(client.PermAll), 0),
	newFrame(opSetData).set("/a", nil, 0),
	newFrame(opMulti).part(opCheck).check("/a", -1).part(opCreate).create("/b", nil, nil, 0).end(),
}

// FuzzAnswers: whatever a server answers, the call returns, does not panic, and takes no more memory than it was sent.
// Before its answer the server may send an event, and after it what is no frame; the answer before has left large numbers.
func FuzzAnswers(f *testing.F) {
	end := append(append(numbers(0xffffffff), 1), numbers(0xffffffff)...)
	for ask := range asks {
		f.Add(byte(ask), int32(0), []byte(nil), []byte(nil), []byte(nil))
		f.Add(byte(ask), int32(0), append(numbers(2, 1), 'a', 0, 0, 0, 1, 'b'), numbers(1, 3, 1), []byte("GET / HTTP/1.1\r\n"))
		f.Add(byte(ask), int32(0), numbers(0x7fffffff, 0xffffffff), numbers(4, 3, 0x7fffffff), numbers(0xffffffff))
		f.Add(byte(ask), int32(-101), append(append(append(numbers(1), 0), numbers(0, 0x7fffffff)...), end...), numbers(), numbers(8, 0))
		f.Add(byte(ask), int32(0), append(append(append(numbers(0xffffffff), 0), numbers(0)...), append(numbers(0xffffff9b), end...)...), numbers(1), []byte{})
	}
	f.Fuzz(func(t *testing.T, ask byte, code int32, body, event, after []byte) {
		if len(body)+len(event)+len(after) > 1<<16 {
			return
		}
		served, here := make(chan struct{}), atomic.Bool{}
		w := newWire(10*time.Second, 0, func(context.Context, string, string) (net.Conn, error) {
			if here.Swap(true) {
				return nil, errors.New("there is one connection")
			}
			server, conn := net.Pipe()
			go func() { // joined below
				defer close(served)
				defer server.Close()
				_ = serve(server, code, body, event, after)
			}()
			return conn, nil
		})
		s := (&service{servers: []string{"127.0.0.1:1"}, log: slog.New(slog.DiscardHandler)}).connect(w)
		_ = s.do(t.Context(), slices.Clone(asks[int(ask)%len(asks)]))
		s.Drop()
		<-served
	})
}

// serve opens a session and answers the first request of it, and all others with an error.
func serve(conn net.Conn, code int32, body, event, after []byte) error {
	if _, err := nextRequest(conn); err != nil {
		return err
	}
	if _, err := conn.Write(append(numbers(37, 0, 10_000, 0, 7, 16, 0, 0, 0, 0), 0)); err != nil {
		return err
	}
	// An event of no kind, whose path the buffer keeps.
	large := make([]uint32, 64)
	for i := range large {
		large[i] = 0x7fffffff
	}
	left := append(numbers(0, 3, 256), numbers(large...)...)
	if _, err := conn.Write(append(numbers(uint32(headerSize+len(left)), 0xffffffff, 0, 0, 0), left...)); err != nil {
		return err
	}
	for first := true; ; first = false {
		xid, err := nextRequest(conn)
		if err != nil {
			return err
		}
		if !first {
			body, event, after, code = nil, nil, nil, errNoNode
		}
		var out []byte
		if len(event) > 0 {
			out = append(numbers(uint32(headerSize+len(event)), 0xffffffff, 0, 0, 0), event...)
		}
		out = append(append(out, numbers(uint32(headerSize+len(body)), xid, 0, 1, uint32(code))...), body...)
		if _, err := conn.Write(append(out, after...)); err != nil {
			return err
		}
	}
}

// nextRequest reads a request, and returns its number.
func nextRequest(conn net.Conn) (xid uint32, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, err
	}
	p := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(conn, p); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(p), nil
}
