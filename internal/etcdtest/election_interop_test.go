package etcdtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// A rival is another program's candidate on a path.
type rival interface {
	campaign(ctx context.Context, value string) error
	proclaim(ctx context.Context, value string) error
	resign(ctx context.Context) error
	// leader returns what it believes the leader's value to be.
	leader(ctx context.Context) (string, error)
}

// rivals are those that the package documentation promises to stand in one election with, on a session of their own.
var rivals = map[string]func(t *testing.T, client *clientv3.Client, path string) rival{
	// What etcdctl elect does too.
	"concurrency.Election": func(t *testing.T, client *clientv3.Client, path string) rival {
		session, err := concurrency.NewSession(client)
		require.NoError(t, err)
		t.Cleanup(func() { _ = session.Close() })
		return electionRival{concurrency.NewElection(session, path)}
	},
	// What clients in other languages call.
	"election service": func(t *testing.T, client *clientv3.Client, path string) rival {
		lease, err := client.Grant(within(t, soon), 60)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = client.Revoke(context.WithoutCancel(t.Context()), lease.ID) })
		return &serviceRival{v3electionpb.NewElectionClient(client.ActiveConnection()), path, lease.ID, nil}
	},
}

type electionRival struct{ *concurrency.Election }

func (r electionRival) campaign(ctx context.Context, value string) error {
	return r.Campaign(ctx, value)
}
func (r electionRival) proclaim(ctx context.Context, value string) error {
	return r.Proclaim(ctx, value)
}
func (r electionRival) resign(ctx context.Context) error { return r.Resign(ctx) }

func (r electionRival) leader(ctx context.Context) (string, error) {
	resp, err := r.Leader(ctx)
	if err != nil {
		return "", err
	}
	return string(resp.Kvs[0].Value), nil
}

type serviceRival struct {
	service v3electionpb.ElectionClient
	path    string
	lease   clientv3.LeaseID
	key     *v3electionpb.LeaderKey
}

func (r *serviceRival) campaign(ctx context.Context, value string) error {
	resp, err := r.service.Campaign(ctx, &v3electionpb.CampaignRequest{
		Name: []byte(r.path), Lease: int64(r.lease), Value: []byte(value),
	})
	if err == nil {
		r.key = resp.Leader
	}
	return err
}

func (r *serviceRival) proclaim(ctx context.Context, value string) error {
	_, err := r.service.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: r.key, Value: []byte(value)})
	return err
}

func (r *serviceRival) resign(ctx context.Context) error {
	_, err := r.service.Resign(ctx, &v3electionpb.ResignRequest{Leader: r.key})
	return err
}

func (r *serviceRival) leader(ctx context.Context) (string, error) {
	resp, err := r.service.Leader(ctx, &v3electionpb.LeaderRequest{Name: []byte(r.path)})
	if err != nil {
		return "", err
	}
	return string(resp.Kv.Value), nil
}

// TestRivalsStandInOneElection: they wait for us and we for them, in the order of arrival, and each reads who leads.
func TestRivalsStandInOneElection(t *testing.T) {
	for name, open := range rivals {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			server := embedtest.Etcd(t)
			client := newClient(t, server.Endpoint())
			store := newStore(t, server.Endpoint(), nil)
			election := farsync.NewElection(store, "/race")
			first, second := open(t, client, "/race"), open(t, client, "/race")
			ctx := within(t, soon)
			leads := func(value string) {
				t.Helper()
				leader, err := election.Leader(ctx)
				require.NoError(t, err)
				require.Equal(t, value, string(leader.Value))
				for _, r := range []rival{first, second} {
					theirs, err := r.leader(ctx)
					require.NoError(t, err)
					require.Equal(t, value, theirs)
				}
			}
			campaign := func(value string) <-chan *farsync.Lease {
				elected := make(chan *farsync.Lease, 1)
				go func() { // ends with the test's context
					lease, err := farsync.NewElection(store, "/race").Campaign(ctx, []byte(value))
					if err != nil {
						t.Error(err)
					}
					elected <- lease
				}()
				return elected
			}

			// theirs, ours, theirs, ours
			require.NoError(t, first.campaign(ctx, "first"))
			ours := campaign("ours")
			awaitKeys(t, client, "/race", 2)
			theirs := make(chan error, 1)
			go func() { theirs <- second.campaign(ctx, "second") }()
			awaitKeys(t, client, "/race", 3)
			last := campaign("last")
			awaitKeys(t, client, "/race", 4)
			leads("first")
			require.NoError(t, first.proclaim(ctx, "first, still"))
			leads("first, still")
			list, err := election.Candidates(ctx)
			require.NoError(t, err)
			for i, value := range []string{"first, still", "ours", "second", "last"} {
				require.Equal(t, value, list[i].Holder)
				require.Equal(t, i == 0, list[i].Held)
			}

			require.Empty(t, ours)
			require.NoError(t, first.resign(ctx))
			lease := <-ours
			leads("ours")
			require.NoError(t, election.Proclaim(ctx, lease, []byte("ours, still")))
			leads("ours, still")
			require.Empty(t, theirs)
			require.NoError(t, lease.Release())
			require.NoError(t, <-theirs)
			leads("second")
			require.Empty(t, last)
			require.NoError(t, second.resign(ctx))
			final := <-last
			leads("last")
			require.Greater(t, final.Token(), lease.Token())
			require.NoError(t, final.Release())
			_, err = election.Leader(ctx)
			require.ErrorIs(t, err, farsync.ErrNoLeader)
		})
	}
}

// TestRivalsDieForOneAnother: the key of one that is dead goes with its lease, and the next leads. Their observer sees
// ours, and ours theirs.
func TestRivalsDieForOneAnother(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	client := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	seen := make(chan string, 10)
	observing := make(chan struct{})
	go func() { // ends with ctx, which the test waits for
		defer close(observing)
		for leader, err := range farsync.NewElection(store, "/dead").Observe(ctx) {
			if err == nil {
				seen <- string(leader.Value)
			}
		}
	}()
	session, err := concurrency.NewSession(client)
	require.NoError(t, err)
	defer session.Close()
	observed := concurrency.NewElection(session, "/dead").Observe(ctx)

	dead := rivals["concurrency.Election"](t, client, "/dead")
	require.NoError(t, dead.campaign(ctx, "theirs"))
	require.Equal(t, "theirs", <-seen)
	require.Equal(t, "theirs", string((<-observed).Kvs[0].Value))
	elected := make(chan *farsync.Lease, 1)
	go func() {
		lease, err := farsync.NewElection(store, "/dead").Campaign(ctx, []byte("ours"))
		if err != nil {
			t.Error(err)
		}
		elected <- lease
	}()
	revokeLeaseOf(t, client, awaitKeys(t, client, "/dead", 2)[0])
	lease := <-elected
	require.Equal(t, "ours", <-seen)
	require.Equal(t, "ours", string((<-observed).Kvs[0].Value))

	heir := rivals["election service"](t, client, "/dead")
	theirs := make(chan error, 1)
	go func() { theirs <- heir.campaign(ctx, "heir") }()
	revokeLeaseOf(t, client, awaitKeys(t, client, "/dead", 2)[0])
	require.NoError(t, <-theirs)
	require.Equal(t, "heir", <-seen)
	require.Equal(t, "heir", string((<-observed).Kvs[0].Value))
	select {
	case <-lease.Done():
		require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	case <-time.After(soon):
		require.FailNow(t, "the leader was not told")
	}
	require.NoError(t, heir.resign(ctx))
	cancel()
	<-observing
	for range observed { // until it ends
	}
}
