package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
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

// TestAnswersThatTheLibraryDoesNotSurviveAreSeen: it makes a slice of 2^32-1 strings, and reads past the end of
// the results of a Multi.
func TestAnswersThatTheLibraryDoesNotSurviveAreSeen(t *testing.T) {
	end := append(append(numbers(0xffffffff), 1), numbers(0xffffffff)...)
	check := append(append(numbers(13), 0), numbers(0)...)
	create := append(append(append(numbers(1), 0), numbers(0, 2)...), '/', 'a')
	failed := append(append(append(numbers(0xffffffff), 0), numbers(0)...), numbers(0xffffff9b)...)
	stat := make([]byte, statSize)
	for _, row := range []struct {
		name  string
		op    int32
		body  []byte
		sound bool
	}{
		{"no children", opGetChildren, append(numbers(0), stat...), true},
		{"two children", opGetChildren, append(append(numbers(2, 1), 'a', 0, 0, 0, 1, 'b'), stat...), true},
		{"2^32-1 children", opGetChildren, append(numbers(0xffffffff), stat...), false},
		{"2^31-1 children", opGetChildren, append(numbers(0x7fffffff), stat...), false},
		{"2^31-1 ACLs", opGetACL, append(numbers(0x7fffffff), stat...), false},
		{"no data", opGetData, append(numbers(0xffffffff), stat...), true},
		{"2 GiB of data", opGetData, append(numbers(0x7fffffff), stat...), false},
		{"children cut in their count", opGetChildren, []byte{0xe1, 0x01, 0x1e}, false},
		{"nothing where children are", opGetChildren, nil, false},
		{"ACLs cut in their count", opGetACL, []byte{0}, false},
		{"data cut in its length", opGetData, []byte{0, 0}, false},
		{"a Multi", opMulti, append(append(append([]byte{}, create...), check...), end...), true},
		{"a Multi that failed", opMulti, append(append([]byte{}, failed...), end...), true},
		{"a Multi without an end", opMulti, check, false},
		{"a Multi cut in the end", opMulti, append(append([]byte{}, check...), end[:5]...), false},
		{"a Multi without anything", opMulti, nil, false},
		{"a Multi of a path beyond the end", opMulti, append(append(numbers(1), 0), numbers(0, 0x7fffffff)...), false},
	} {
		require.Equal(t, row.sound, sound(row.op, row.body), row.name)
	}
	password := numbers(0, 10_000, 0, 7)
	require.True(t, soundHandshake(append(append(password, numbers(2)...), 'a', 'b', 1)))
	require.True(t, soundHandshake(append(password, numbers(0xffffffff)...)))
	require.False(t, soundHandshake(append(password, numbers(0x7fffffff)...)))
	require.False(t, soundHandshake(password))
}

// TestAnswerThatIsTooLongIsAnErrorOfThatCall: the connection goes on, and with it the leases of all others.
func TestAnswerThatIsTooLongIsAnErrorOfThatCall(t *testing.T) {
	server, conn := net.Pipe()
	w := newWire(time.Second, 0, nil)
	l := newLink(w, conn)
	l.shook = true
	l.requests[7], l.requests[8] = request{op: opGetChildren}, request{op: opSync}
	const size = maxFrame + 1
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = server.Write(numbers(size, 7, 0, 0, 0))
		_, _ = server.Write(make([]byte, size-headerSize))
		_, _ = server.Write(append(numbers(headerSize+5, 8, 0, 0, 0, 1), '/'))
	})
	frame := make([]byte, 4+headerSize)
	_, err := io.ReadFull(l, frame)
	require.NoError(t, err)
	require.Equal(t, numbers(headerSize, 7, 0, 0, tooLong), frame)
	_, err = io.ReadFull(l, make([]byte, 4+headerSize+5))
	require.NoError(t, err, "the next answer")
	sent.Wait()
	require.NoError(t, l.Close())
	require.NoError(t, server.Close())
	refused := answer(fmt.Errorf("unknown error: %v", client.ErrCode(tooLong)))
	require.ErrorContains(t, refused, "longer than 16 MiB")
	require.Equal(t, driver.Refused, outcome(refused))
}

// TestLibraryIsShownNoZxidAndServersAreToldTheLast: it would note each without a lock, and ask for changes since the last
// when it sets its watches again, although a connection was lost before they were set.
func TestLibraryIsShownNoZxidAndServersAreToldTheLast(t *testing.T) {
	w := newWire(time.Second, 0, nil)
	connected := append(numbers(37, 0, 10_000, 0, 7, 16, 0, 0, 0, 0), 0)
	for _, connection := range []struct {
		told, since uint32 // what the server is told of zxids
		setAgain    bool   // the library sets its watches again, and is answered
		seen        uint32 // the zxid of the answers
	}{
		{seen: 3},
		{told: 3, seen: 5}, // lost before the request arrives
		{told: 5, since: 3, setAgain: true, seen: 7},
		{told: 7, since: 7, setAgain: true, seen: 6},
		{told: 7, seen: 8},
	} {
		server, conn := net.Pipe()
		l := newLink(w, conn)
		var all sync.WaitGroup
		ask := func(request, reply []byte) (asked []byte) {
			asked = make([]byte, len(request))
			all.Go(func() {
				_, _ = io.ReadFull(server, asked)
				_, _ = server.Write(reply)
			})
			_, err := l.Write(request)
			require.NoError(t, err)
			shown := make([]byte, len(reply))
			_, err = io.ReadFull(l, shown)
			require.NoError(t, err)
			all.Wait()
			if len(reply) >= 20 && len(reply) < 41 {
				require.Equal(t, numbers(0, 0), shown[8:16])
			}
			return asked
		}
		session := uint32(w.id.Load())
		asked := ask(numbers(44, 0, 99, 99, 10_000, 0, session, 16, 0, 0, 0, 0), connected)
		require.Equal(t, numbers(0, connection.told), asked[8:16])
		ask(numbers(12, 1, opSync, 0), numbers(20, 1, 0, connection.seen, 0, 0))
		again := numbers(28, 2, opSetWatches, 99, 99, 0, 0, 0)
		if connection.setAgain {
			asked = ask(again, numbers(16, 2, 0, connection.seen, 0))
			require.Equal(t, numbers(0, connection.since), asked[12:20])
		}
		require.NoError(t, l.Close())
		require.NoError(t, server.Close())
	}
}

// TestOutcomes: a refusal without a name in the library would be sent again for ever.
func TestOutcomes(t *testing.T) {
	for err, want := range map[error]driver.Outcome{
		client.ErrNoAuth:                      driver.Refused,
		client.ErrNoNode:                      driver.Refused,
		errors.New("unknown error: -125"):     driver.Refused, // the quota is exceeded
		errors.New("unknown error: -5"):       driver.Refused,
		errors.New("unknown error: -1"):       driver.Unknown,
		errors.New("unknown error: -4"):       driver.Unknown,
		errors.New("unknown error: -7"):       driver.Unknown,
		errors.New("unknown error: -127"):     driver.Unknown,
		client.ErrSessionMoved:                driver.Unknown,
		client.ErrConnectionClosed:            driver.Unknown,
		client.ErrClosing:                     driver.Unknown,
		&net.OpError{Op: "read", Err: io.EOF}: driver.Unknown,
		client.ErrNoServer:                    driver.NotDone,
		client.ErrSessionExpired:              driver.Expired,
		errSecondSession:                      driver.Expired,
		errShortened:                          driver.Expired,
		notDone(client.ErrConnectionClosed):   driver.NotDone,
		notDone(client.ErrNoAuth):             driver.Refused,
		notDone(errExpired):                   driver.Expired,
		stray("/a"):                           driver.Refused,
		errSequence:                           driver.Refused,
	} {
		require.Equal(t, want, outcome(answer(err)), err)
		require.Equal(t, want, outcome(fmt.Errorf("lock: %w", answer(err))), err)
	}
	require.NoError(t, answer(nil))
	require.NoError(t, notDone(nil))
}
