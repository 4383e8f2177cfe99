package main

import (
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// A tally counts the messages and bytes that clients have sent and received.
type tally struct {
	requests, replies, sent, received atomic.Int64
	connections                       atomic.Int64 // that are open
}

// A count is a tally at one moment.
type count struct{ requests, replies, sent, received, connections int64 }

func (t *tally) now() count {
	return count{t.requests.Load(), t.replies.Load(), t.sent.Load(), t.received.Load(), t.connections.Load()}
}

// A wire is a TCP proxy in front of one server. It delays what passes, in each direction, and counts it.
type wire struct {
	listener net.Listener
	target   string
	store    string
	delay    time.Duration
	count    *tally
	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func newWire(target, store string, delay time.Duration, count *tally) (*wire, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if count == nil {
		count = new(tally)
	}
	w := &wire{listener: listener, target: target, store: store, delay: delay, count: count}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.running.Go(w.accept)
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

// close closes all connections, and returns when all goroutines have ended.
func (w *wire) close() {
	w.cancel()
	_ = w.listener.Close()
	w.running.Wait()
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.serve(client) })
	}
}

func (w *wire) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = client.Close()
		return
	}
	w.count.connections.Add(1)
	defer w.count.connections.Add(-1)
	ctx, cancel := context.WithCancel(w.ctx)
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		w.pass(ctx, client, server, framesOf(w.store, true), &w.count.requests, &w.count.sent)
	})
	both.Go(func() {
		defer cancel()
		w.pass(ctx, server, client, framesOf(w.store, false), &w.count.replies, &w.count.received)
	})
	both.Wait()
}

// A parcel is what was read at once, and when it is due at the other side.
type parcel struct {
	data []byte
	due  time.Time
}

// pass carries one direction. A goroutine of its own writes, so that a delay holds up nothing that is read meanwhile.
func (w *wire) pass(ctx context.Context, from, to net.Conn, frames framer, messages, bytes *atomic.Int64) {
	parcels := make(chan parcel, 1024)
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range parcels {
			if w.delay > 0 && pause.For(ctx, time.Until(p.due)) != nil {
				continue
			}
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close() // ends the reading
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			messages.Add(int64(frames.feed(buffer[:n])))
			bytes.Add(int64(n))
			parcels <- parcel{append([]byte(nil), buffer[:n]...), time.Now().Add(w.delay)}
		}
		if err != nil {
			break
		}
	}
	close(parcels)
	writing.Wait()
}

// A framer counts the messages that begin in a stream of bytes.
type framer interface{ feed(data []byte) int }

// framesOf returns a framer of what one side of a new connection to a store sends.
func framesOf(store string, client bool) framer {
	switch store {
	case onEtcd: // HTTP/2, in whose frames of data gRPC sends a message each, unless it is long
		h := &headed{size: 9, read: func(head []byte) (int, bool) {
			length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
			return length, head[3] == 0 && length > 0
		}}
		if client {
			h.skip = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		}
		return h
	case onZooKeeper:
		return &headed{size: 4, read: func(head []byte) (int, bool) { return int(binary.BigEndian.Uint32(head)), true }}
	case onPostgres: // what ends a round of requests, or the answer to one, or comes unasked
		ends := "ZA"
		h := &headed{size: 5}
		if client {
			ends = "SQ"
			h.size = 4 // the first message has no letter
		}
		h.read = func(head []byte) (int, bool) {
			if len(head) == 4 {
				h.size = 5
				return int(binary.BigEndian.Uint32(head)) - 4, false
			}
			return int(binary.BigEndian.Uint32(head[1:])) - 4, strings.IndexByte(ends, head[0]) >= 0
		}
		return h
	case onMySQL: // packets have numbers: a request is packet 0, and its answer begins with packet 1
		first := byte(1)
		if client {
			first = 0
		}
		return &headed{size: 4, read: func(head []byte) (int, bool) {
			return int(head[0]) | int(head[1])<<8 | int(head[2])<<16, head[3] == first
		}}
	default:
		return &resp{}
	}
}

// headed is a framer of messages that begin with a head of a known size, which tells how much follows.
type headed struct {
	skip int // bytes to pass over before the next head
	size int
	head []byte
	read func(head []byte) (length int, message bool)
}

func (h *headed) feed(data []byte) (messages int) {
	for len(data) > 0 {
		if h.skip > 0 {
			n := min(h.skip, len(data))
			data, h.skip = data[n:], h.skip-n
			continue
		}
		n := min(h.size-len(h.head), len(data))
		h.head, data = append(h.head, data[:n]...), data[n:]
		if len(h.head) == h.size {
			length, message := h.read(h.head)
			h.skip, h.head = length, h.head[:0]
			if message {
				messages++
			}
		}
	}
	return messages
}

// resp is a framer of Redis's protocol, in both directions: lines, which announce texts and further items.
type resp struct {
	skip    int    // bytes of a text to pass over
	line    []byte // what has come of one
	pending int    // items until the message is complete
}

func (r *resp) feed(data []byte) (messages int) {
	for len(data) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(data))
			data, r.skip = data[n:], r.skip-n
		} else {
			b := data[0]
			data = data[1:]
			if b != '\n' {
				r.line = append(r.line, b)
				continue
			}
			if r.pending == 0 {
				messages++
				r.pending = 1
			}
			r.item(strings.TrimSuffix(string(r.line), "\r"))
			r.line = r.line[:0]
		}
	}
	return messages
}

// item reads one line.
func (r *resp) item(line string) {
	r.pending--
	if line == "" {
		return
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return
	}
	switch line[0] {
	case '*', '~', '>':
		r.pending += n
	case '%':
		r.pending += 2 * n
	case '$', '=':
		r.skip = n + len("\r\n")
	}
}
