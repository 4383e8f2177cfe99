package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// numbers returns 32-bit numbers as they are sent.
func numbers(list ...uint32) (p []byte) {
	for _, n := range list {
		p = binary.BigEndian.AppendUint32(p, n)
	}
	return p
}

// TestMalformedAnswersAreSeen: counts and lengths are not believed.
func TestMalformedAnswersAreSeen(t *testing.T) {
	stat := make([]byte, statSize)
	part := append(append(numbers(0xffffffff), 0), numbers(0, 0)...)
	end := append(append(numbers(0xffffffff), 1), numbers(0xffffffff)...)
	for _, row := range []struct {
		name  string
		op    int32
		body  []byte
		sound bool
	}{
		{"no children", opGetChildren, append(numbers(0), stat...), true},
		{"two children", opGetChildren, append(append(numbers(2, 1), 'a', 0, 0, 0, 1, 'b'), stat...), true},
		{"a child cut in its name", opGetChildren, append(numbers(2, 1), 'a', 0, 0, 0, 3, 'b'), false},
		{"a child cut in its length", opGetChildren, append(numbers(2, 1), 'a', 0, 0, 0), false},
		{"2^32-1 children", opGetChildren, append(numbers(0xffffffff), stat...), false},
		{"2^31-1 children", opGetChildren, append(numbers(0x7fffffff), stat...), false},
		{"2^31-1 ACLs", opGetACL, append(numbers(0x7fffffff), stat...), false},
		{"no data", opGetData, append(numbers(0xffffffff), stat...), true},
		{"no stat", opGetData, append(numbers(0), stat[1:]...), false},
		{"2 GiB of data", opGetData, append(numbers(0x7fffffff), stat...), false},
		{"children cut in their count", opGetChildren, []byte{0xe1, 0x01, 0x1e}, false},
		{"nothing where children are", opGetChildren, nil, false},
		{"ACLs cut in their count", opGetACL, []byte{0}, false},
		{"data cut in its length", opGetData, []byte{0, 0}, false},
		{"a path beyond the end", opCreate, numbers(0x7fffffff), false},
		{"a Multi", opMulti, append(append(numbers(13), 0), numbers(0)...), true},
		{"a Multi that failed", opMulti, append(append([]byte{}, part...), append(part[:9:9], numbers(0xffffff9b)...)...), true},
		{"a Multi that failed as nothing", opMulti, append(append([]byte{}, part...), end...), true},
		{"a Multi without an end", opMulti, part, false},
		{"a Multi cut in the end", opMulti, append(append([]byte{}, part...), end[:3]...), false},
		{"a Multi without anything", opMulti, nil, false},
	} {
		require.Equal(t, row.sound, (&call{op: row.op}).decode(row.body), row.name)
	}
	r := call{op: opGetChildren}
	require.True(t, r.decode(append(append(numbers(2, 1), 'a', 0, 0, 0, 2, 'b', 'c'), stat...)))
	require.Equal(t, []string{"a", "bc"}, slices.Collect(r.names.all))
	r = call{op: opMulti}
	require.True(t, r.decode(append(append([]byte{}, part...), append(append(part[:9:9], numbers(0xffffff9b)...), end...)...)))
	require.EqualValues(t, errNoNode, r.failed, "the first that failed")
}

// TestAnswerThatIsTooLongIsAnErrorOfThatCall: the connection goes on, and with it the leases of all others.
func TestAnswerThatIsTooLongIsAnErrorOfThatCall(t *testing.T) {
	server, conn := net.Pipe()
	w := newWire(time.Minute, 0, nil)
	l := newLink(w, conn)
	l.calls[7], l.calls[8] = newCall(newFrame(opGetChildren)), newCall(syncing("/"))
	const size = maxFrame + 1
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = server.Write(numbers(size, 7, 0, 0, 0))
		_, _ = server.Write(make([]byte, size-headerSize))
		_, _ = server.Write(append(numbers(headerSize+5, 8, 0, 0, 0, 1), '/'))
	})
	body, err := l.next()
	require.NoError(t, err)
	require.Equal(t, numbers(7, 0, 0, tooLong), body)
	body, err = l.next()
	require.NoError(t, err)
	require.Equal(t, append(numbers(8, 0, 0, 0, 1), '/'), body, "the next answer")
	sent.Wait()
	require.NoError(t, l.Close())
	require.NoError(t, server.Close())
	refused := answer(tooLong)
	require.ErrorContains(t, refused, "longer than 16 MiB")
	require.Equal(t, driver.Refused, outcome(refused))
}

// TestServersAreToldTheLastZxid: watches that are set again fire for what has changed since the last answer of the connection on
// which they were all set. A connection that was lost before that does not count, although an answer on it may be younger than
// a change: many watches are set in several requests.
func TestServersAreToldTheLastZxid(t *testing.T) {
	w := newWire(time.Minute, 0, nil)
	s := &session{service: &service{}, wire: w, reads: map[spot]*read{}, slots: make(chan struct{}, 9)}
	connected := append(numbers(37, 0, 10_000, 0, 7, 16, 0, 0, 0, 0), 0)
	for i, connection := range []struct {
		told, since uint32 // what the server is told of zxids
		answered    int    // so many of the requests that set the watches again
		seen        uint32 // the zxid of the answers
	}{
		{seen: 3},
		{told: 3, since: 3, answered: 1, seen: 5},
		{told: 5, since: 3, answered: 1, seen: 6},
		{told: 6, since: 3, answered: 2, seen: 7},
		{told: 7, since: 7, answered: 2, seen: 6},
		{told: 7, since: 7, answered: 0, seen: 8},
	} {
		server, conn := net.Pipe()
		l := newLink(w, conn)
		var all sync.WaitGroup
		ask := func(n int) (asked []byte) {
			asked = make([]byte, n)
			_, err := io.ReadFull(server, asked)
			if err != nil {
				t.Error(err)
			}
			return asked
		}
		var asked []byte
		all.Go(func() {
			asked = ask(48)
			_, _ = server.Write(connected)
		})
		require.NoError(t, l.shake(nil))
		all.Wait()
		require.Equal(t, numbers(0, connection.told), asked[8:16])
		s.restore(l)
		s.slots <- struct{}{}
		require.True(t, l.add(newCall(syncing("/"))))
		all.Go(func() {
			defer server.Close()
			xid := uint32(1)
			for part := 0; i > 0 && part < 2; part++ {
				asked = ask(12 + 8 + 3*4 + [...]int{250, 1}[part]*8)
				if part == connection.answered {
					return
				}
				_, _ = server.Write(numbers(16, xid, 0, connection.seen, 0))
				xid++
			}
			ask(17)
			_, _ = server.Write(append(numbers(16+5, xid, 0, connection.seen, 0, 1), '/'))
		})
		l.flush(0)
		require.Error(t, l.receive(s))
		all.Wait()
		if i > 0 {
			require.Equal(t, numbers(0, connection.since), asked[12:20])
		}
		l.end(s)
		if i == 0 {
			for n := range 251 {
				r := &read{call: *newCall(newFrame(opGetData)), at: spot{opGetData, fmt.Sprintf("/%03d", n), true}}
				close(r.done)
				s.reads[r.at] = r
			}
		}
	}
}

// TestAnswerOutOfOrderEndsTheConnection, also where it is to a request that is not answered yet.
func TestAnswerOutOfOrderEndsTheConnection(t *testing.T) {
	for _, row := range []struct {
		answers []uint32
		sound   bool
	}{
		{[]uint32{1, 2, 3}, true},
		{[]uint32{1, 3}, false},
		{[]uint32{2}, false},
		{[]uint32{1, 1}, false},
		{[]uint32{4}, false},
		{[]uint32{0}, false},
		{[]uint32{1<<32 - 2}, false}, // what a ping would be answered with
	} {
		server, conn := net.Pipe()
		w := newWire(time.Minute, 0, nil)
		s := &session{service: &service{}, wire: w, reads: map[spot]*read{}}
		l := newLink(w, conn)
		var calls []*call
		for range 3 {
			calls = append(calls, urgent(newFrame(opDelete)))
			require.True(t, l.add(calls[len(calls)-1]))
		}
		var answering sync.WaitGroup
		answering.Go(func() {
			defer server.Close()
			for _, xid := range row.answers {
				if _, err := server.Write(numbers(16, xid, 0, 1, 0)); err != nil {
					return
				}
			}
		})
		err := l.receive(s)
		l.end(s)
		answering.Wait()
		require.Equal(t, row.sound, !errors.Is(err, errFrame), "%v: %v", row.answers, err)
		for _, c := range calls {
			require.True(t, happened(c.done))
			require.True(t, !row.sound || c.err == nil)
		}
		require.Equal(t, row.sound, calls[2].err == nil, row.answers)
	}
}

// TestXidsGoRound: they stay above those that have a meaning of their own.
func TestXidsGoRound(t *testing.T) {
	require.Equal(t, []int32{1, 2, 1}, []int32{following(0), following(1), following(1<<31 - 1)})
}

// TestOutcomes: a refusal without a name here would be sent again for ever.
func TestOutcomes(t *testing.T) {
	for err, want := range map[error]driver.Outcome{
		answer(-102):                          driver.Refused,
		answer(-101):                          driver.Refused,
		answer(-125):                          driver.Refused, // the quota is exceeded
		answer(-5):                            driver.Refused,
		answer(-1):                            driver.Unknown,
		answer(-4):                            driver.Unknown,
		answer(-7):                            driver.Unknown,
		answer(-116):                          driver.Unknown,
		answer(-118):                          driver.Unknown,
		answer(-127):                          driver.Unknown,
		client.ErrConnectionClosed:            driver.Unknown,
		&net.OpError{Op: "read", Err: io.EOF}: driver.Unknown,
		answer(errExpiry):                     driver.Expired,
		errSecondSession:                      driver.Expired,
		errShortened:                          driver.Expired,
		notDone(client.ErrConnectionClosed):   driver.NotDone,
		notDone(client.ErrNoAuth):             driver.Refused,
		notDone(errExpired):                   driver.Expired,
		stray("/a"):                           driver.Refused,
		errCounter:                            driver.Refused,
	} {
		require.Equal(t, want, outcome(err), err)
		require.Equal(t, want, outcome(fmt.Errorf("lock: %w", err)), err)
	}
	require.NoError(t, answer(0))
	require.NoError(t, notDone(nil))
}
