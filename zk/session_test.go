package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// TestServersThatRefuseAreAskedLessOften: a Store that cannot be opened does not keep its servers busy with handshakes, and asks all of them
// as often.
func TestServersThatRefuseAreAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		w := newWire(10*time.Second, 0, func(_ context.Context, _, address string) (net.Conn, error) {
			asked[address]++
			return nil, errors.New("refused")
		})
		s := (&service{servers: []string{"a:1", "b:1", "c:1"}, log: slog.New(slog.DiscardHandler)}).connect(w)
		time.Sleep(5 * time.Second) //nolint:forbidigo // in a bubble
		s.Drop()
		for _, address := range s.servers {
			require.GreaterOrEqual(t, asked[address], 4)
			require.LessOrEqual(t, asked[address], 6)
		}
	})
}

// TestSilenceDoesNotHideWhatAServerSaid: the message of an Open that fails says what is wrong with a certificate, also if a later handshake
// was not answered in time. What was lost once it was there is told as it is.
func TestSilenceDoesNotHideWhatAServerSaid(t *testing.T) {
	why := func(w *wire) string { return (*w.last.Load()).Error() }
	w := newWire(10*time.Second, 0, nil)
	w.lost(errMute)
	require.Equal(t, errMute.Error(), why(w))
	w.lost(errPlain)
	for _, silent := range []error{errMute, context.DeadlineExceeded, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}} {
		w.lost(silent)
		require.Equal(t, errPlain.Error(), why(w))
	}
	w.lost(errFrame)
	require.Equal(t, errFrame.Error(), why(w))
	close(w.open)
	w.lost(errMute)
	require.Equal(t, errMute.Error(), why(w))
}

// TestWhyThereIsNoConnectionRefusesNothing: a call that waits for a connection is made again later, also where one of the servers does not
// accept the credentials.
func TestWhyThereIsNoConnectionRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(10*time.Second, 0, func(context.Context, string, string) (net.Conn, error) { return nil, client.ErrAuthFailed })
		s := (&service{servers: []string{"a:1"}, log: slog.New(slog.DiscardHandler)}).connect(w)
		defer s.Drop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.do(ctx, syncing("/"))
		require.ErrorIs(t, err, client.ErrAuthFailed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, driver.NotDone, outcome(err))
	})
}

// TestReadsThatAreGivenUpAreNotSent: while there is no connection, any number of nodes may be asked about. What is left of
// calls that have ended must not wait for the next connection, and keep the server busy then. Other callers of the same read get their answer.
func TestReadsThatAreGivenUpAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		asked := map[int32]int{}
		s := scripted(t, &up, func(_ int, op int32) reply {
			asked[op]++
			return reply{code: errNoNode}
		})
		ctx, giveUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		read := func(ctx context.Context, path string, watch bool, want error) {
			calls.Go(func() {
				_, err := s.await(ctx, s.begin(spot{opGetData, path, watch}))
				if !errors.Is(err, want) {
					t.Error(path, err)
				}
			})
			synctest.Wait()
		}
		for i := range 100 {
			read(ctx, fmt.Sprint("/left", i/2), i%4 < 2, context.Canceled)
		}
		call := func(f func() error) {
			calls.Go(func() {
				if err := f(); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		call(func() error { // reads two nodes
			_, err := s.Ahead(ctx, driver.Entry{Queue: "/left/permit", Kind: driver.Permit}, true)
			return err
		})
		call(func() error {
			on := []driver.Target{{Entry: driver.Entry{ID: "/left/a"}}, {Entry: driver.Entry{ID: "/left/b"}}}
			_, err := s.Watch(ctx, driver.Entry{}, on, func() {})
			return err
		})
		call(func() error {
			_, _, err := s.fill(ctx, []driver.Entry{{ID: "/left/c"}, {ID: "/left/d"}}, 0, 0)
			return err
		})
		for _, watch := range []bool{false, true} {
			read(ctx, "/kept", watch, context.Canceled)
			read(t.Context(), "/kept", watch, driver.ErrGone)
		}
		read(ctx, "/again", false, context.Canceled)
		giveUp()
		read(t.Context(), "/again", false, driver.ErrGone) // beside the end of the one before
		calls.Go(func() {
			at := spot{opGetData, "/again", true}
			s.leave(s.begin(at))
			if _, err := s.await(t.Context(), s.begin(at)); !errors.Is(err, driver.ErrGone) {
				t.Error(err)
			}
		})
		synctest.Wait()
		require.Len(t, s.reads, 4)
		up.Store(true)
		calls.Wait()
		require.Equal(t, map[int32]int{opGetData: 4}, asked, "one for each that is wanted")
		require.Empty(t, s.reads)
	})
}

// TestRenewalProvesTheOneThatWasAnsweredAQuarterBefore: what was sent a quarter of the TTL before may have been held up, and have come
// to the server together with this one. Then no heartbeat lay between, and the leader has heard of neither.
func TestRenewalProvesTheOneThatWasAnsweredAQuarterBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		close(held)
		s := scripted(t, nil, func(int, int32) reply {
			<-held
			return reply{body: append(append(numbers(opCheck), 0), numbers(0)...)}
		})
		var renewals sync.WaitGroup
		renew := func() time.Time {
			sent := time.Now()
			renewals.Go(func() {
				if err := s.Renew(t.Context(), []driver.Entry{{ID: "/a/b"}}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			return sent
		}
		proved := func() time.Time {
			_, from := s.Granted()
			return from
		}
		const quarter = 2500 * time.Millisecond
		renew()
		time.Sleep(quarter) //nolint:forbidigo // in a bubble
		first := renew()
		held = make(chan struct{})
		time.Sleep(quarter) //nolint:forbidigo // in a bubble
		renew()
		time.Sleep(quarter) //nolint:forbidigo // in a bubble
		third := renew()
		close(held)
		renewals.Wait()
		require.Equal(t, first, proved(), "not the second or the third, which were answered now")
		time.Sleep(quarter) //nolint:forbidigo // in a bubble
		renew()
		renewals.Wait()
		require.Equal(t, third, proved(), "it had reached the server when both were answered")
	})
}

// TestProofIsNeverOlderThanHalfTheTimeout: a session that is connected, and renewed every quarter, has a proof that is as
// young whatever came between two renewals. Each of the requests in between is less than a quarter older than the renewal that
// follows it, so that renewal proves none of them.
func TestProofIsNeverOlderThanHalfTheTimeout(t *testing.T) {
	const (
		ttl     = 10 * time.Second
		quarter = ttl / 4
		slack   = ttl / signsPerTimeout
	)
	for name, between := range map[string]func(t *testing.T, s *session){
		"nothing": func(*testing.T, *session) {},
		"a new connection": func(t *testing.T, s *session) {
			require.NoError(t, s.link().Close())
			synctest.Wait()
			time.Sleep(redialFirst) //nolint:forbidigo // in a bubble
			synctest.Wait()
			require.NotNil(t, s.link())
		},
		"a transaction": func(t *testing.T, s *session) { require.NoError(t, s.propose(t.Context(), "/a/b")) },
		"many transactions": func(t *testing.T, s *session) {
			for range 100 {
				require.NoError(t, s.propose(t.Context(), "/a/b"))
				time.Sleep(quarter / 200) //nolint:forbidigo // in a bubble
				require.LessOrEqual(t, len(s.link().signs), signsPerTimeout/4+1)
			}
		},
	} {
		for _, after := range []time.Duration{10 * time.Millisecond, quarter / 3, quarter / 2} { // of the renewal before
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := scripted(t, nil, func(int, int32) reply {
						return reply{body: append(append(numbers(opCheck), 0), numbers(0)...)}
					})
					renew := func() { require.NoError(t, s.Renew(t.Context(), []driver.Entry{{ID: "/a/b"}})) }
					for range 3 {
						renew()
						time.Sleep(quarter) //nolint:forbidigo // in a bubble
					}
					renew()
					begun := time.Now()
					time.Sleep(after) //nolint:forbidigo // in a bubble
					between(t, s)
					time.Sleep(quarter - time.Since(begun)) //nolint:forbidigo // in a bubble
					for range 4 {
						_, from := s.Granted()
						require.LessOrEqual(t, time.Since(from), ttl/2+slack)
						renew()
						time.Sleep(quarter) //nolint:forbidigo // in a bubble
					}
				})
			})
		}
	}
}
