package etcd

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/peer"
)

// TestRequestsAreDealtToMembersThatOweNothing: wherever the turn of the members begins. Where all of them owe an answer the request
// is sent all the same, once.
func TestRequestsAreDealtToMembersThatOweNothing(t *testing.T) {
	members := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	for _, n := range []int{1, 3} {
		client, err := clientv3.New(clientv3.Config{Endpoints: members[:n]})
		require.NoError(t, err)
		defer client.Close()
		for owing := range 1 << n {
			for begin := range n {
				s := newSession(&service{client: client}, 1, time.Minute, time.Now())
				s.owe("") // it is not known to which member a request was sent
				require.Empty(t, s.owing)
				for i := range n {
					if owing&(1<<i) != 0 {
						s.owe(members[i])
					}
				}
				turn, sent := begin, 0
				to, err := s.deal(func(r *request) error {
					addr, err := net.ResolveTCPAddr("tcp", members[turn%n])
					require.NoError(t, err)
					turn++
					if _, err := r.GetRequestMetadata(peer.NewContext(t.Context(), &peer.Peer{Addr: addr})); err != nil {
						return err
					}
					sent++
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, 1, sent)
				if owing != 1<<n-1 {
					require.False(t, s.owes(to), "%s, of which %b owe", strings.Join(members[:n], " "), owing)
				}
				s.end(nil)
			}
		}
	}
}

// TestRequestThatWasSentIsNotDealtAgain: the client repeats a request that was answered Canceled, and the member has
// begun to owe another answer meanwhile. The request was sent all the same. One that was only avoided so far is sent.
func TestRequestThatWasSentIsNotDealtAgain(t *testing.T) {
	const member = "127.0.0.1:1"
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{member, "127.0.0.1:2"}})
	require.NoError(t, err)
	defer client.Close()
	addr, err := net.ResolveTCPAddr("tcp", member)
	require.NoError(t, err)
	to := peer.NewContext(t.Context(), &peer.Peer{Addr: addr})
	for _, owes := range []bool{false, true} {
		s := newSession(&service{client: client}, 1, time.Minute, time.Now())
		sent, dealt := 0, 0
		if owes {
			s.owe(member)
		}
		_, err = s.deal(func(r *request) (err error) {
			dealt++
			for range 3 { // the client repeats it while the answer is Canceled
				if _, err = r.GetRequestMetadata(to); err != nil {
					return err
				}
				sent++
				s.owe(member)
			}
			return nil
		})
		require.ErrorIs(t, err, errRepeated)
		require.Equal(t, 1, sent)
		if !owes {
			require.Equal(t, 1, dealt)
		}
		s.end(nil)
	}
}
