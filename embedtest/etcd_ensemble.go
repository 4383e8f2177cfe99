//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	etcdTick     = 50 * time.Millisecond
	etcdElection = 500 * time.Millisecond // with it the shortest TTL that the server grants is 1 s
)

// An EtcdEnsemble is an etcd cluster.
type EtcdEnsemble struct {
	ensemble
	members []*EtcdServer
	sockets string // directory with the home of each member's sockets
}

// StartEtcd starts an etcd cluster of n members that keep their data and logs under dir, which is made if need be, and
// waits until all are ready or ctx is done. Members that find their data there go on with it, if n is the same. The
// cluster lives until Close, also when ctx is done later; on failure nothing is left running.
//
// The program must call [Child] first in its main, or [Main] in its TestMain.
func StartEtcd(ctx context.Context, dir string, n int, options ...Option) (*EtcdEnsemble, error) {
	if n < 1 {
		panic("embedtest: StartEtcd: n < 1")
	}
	e := new(EtcdEnsemble)
	err := e.prepare(dir, n, settingsOf(options))
	if err == nil {
		err = e.start(ctx)
	}
	if err != nil {
		_ = e.Close() // err says it all
		return nil, err
	}
	return e, nil
}

// Member returns the member with index i, counted from 0.
func (e *EtcdEnsemble) Member(i int) *EtcdServer { return e.members[i] }

// Leader waits until a majority of the members agree on a leader that serves linearizable reads, and returns its index,
// or ctx's error. A leader that has just been isolated is not one, though all may still believe in it.
func (e *EtcdEnsemble) Leader(ctx context.Context) (int, error) { return e.awaitLeader(ctx, e.agreed) }

// Close kills all members and returns when all goroutines of the cluster have ended. Data and logs stay. Its error says
// which members had ended by themselves before. Once closed, a cluster stays closed.
func (e *EtcdEnsemble) Close() error {
	return errors.Join(e.ensemble.Close(), os.RemoveAll(e.sockets))
}

func (e *EtcdEnsemble) prepare(dir string, n int, settings settings) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// Members meet at unix sockets, and the path of a unix socket is short, so they are not put under dir.
	if e.sockets, err = os.MkdirTemp("", "embedtest"); err != nil {
		return err
	}
	cluster := make([]string, n)
	for i := range n {
		cluster[i] = fmt.Sprintf("m%d=%s", i, peerURL(i))
		if err := os.Mkdir(e.socketsOf(i), 0o700); err != nil {
			return err
		}
	}
	if err := e.connect(n, settings); err != nil {
		return err
	}
	for i := range n {
		child := etcdChild{
			Name:    fmt.Sprintf("m%d", i),
			Peer:    peerURL(i),
			Cluster: strings.Join(cluster, ","),
			Fsync:   settings.fsync,
		}
		if err := e.add(filepath.Join(dir, child.Name), child); err != nil {
			return err
		}
	}
	return nil
}

// connect gives each member a socket for each of the others.
func (e *EtcdEnsemble) connect(n int, settings settings) error {
	socket := func(from, to int) string { return filepath.Join(e.socketsOf(from), peerSocket(to)) }
	if settings.bench {
		for from := range n {
			for to := range n {
				if from == to {
					continue
				}
				if err := os.Symlink(socket(to, to), socket(from, to)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	e.mesh = newMesh(n)
	return e.mesh.connect(func(from, to int) ([]*Proxy, error) {
		listener, err := net.Listen("unix", socket(from, to))
		if err != nil {
			return nil, err
		}
		return []*Proxy{newProxy(listener, route{network: "unix", target: socket(to, to)})}, nil
	})
}

// add adds the next member. It fills in what the child needs to know beyond its part in the cluster.
func (e *EtcdEnsemble) add(home string, child etcdChild) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	kept, err := reservePort()
	if err != nil {
		return err
	}
	child.Data = filepath.Join(home, "data")
	child.Client = "http://" + kept.addr()
	directory := e.socketsOf(len(e.members))
	m := &EtcdServer{server{
		name:     "etcd member " + child.Name,
		endpoint: child.Client,
		ports:    []port{kept},
		log:      filepath.Join(home, "log"),
		hint:     childHint,
		command: func() (*exec.Cmd, error) {
			command, err := childCommand(child)
			if err == nil {
				command.Dir = directory
			}
			return command, err
		},
	}}
	m.probe = m.healthy
	e.members = append(e.members, m)
	e.servers = append(e.servers, &m.server)
	return nil
}

// agreed returns the member that a majority, itself among them, names as the leader of one term, if it can still act.
func (e *EtcdEnsemble) agreed(ctx context.Context) (leader int, ok bool) {
	all := make([]etcdStatus, len(e.members))
	var group errgroup.Group
	for i, m := range e.members {
		group.Go(func() error {
			if status, err := m.status(ctx); err == nil { // else it has no say
				all[i] = status
			}
			return nil
		})
	}
	_ = group.Wait()
	for i, candidate := range all {
		if candidate.leader == 0 || candidate.leader != candidate.member {
			continue
		}
		votes := 0
		for _, voter := range all {
			if voter.leader == candidate.member && voter.term == candidate.term {
				votes++
			}
		}
		if votes > len(all)/2 {
			return i, e.members[i].healthy(ctx) == nil
		}
	}
	return 0, false
}

// socketsOf is the working directory of member i. All members must know one of them by the same URL. As the URL is a
// relative path, it leads each to a socket of its own: the socket of its link to the other member, or, for the other
// member itself, the socket on which it listens.
func (e *EtcdEnsemble) socketsOf(i int) string { return filepath.Join(e.sockets, fmt.Sprint(i)) }

func peerURL(i int) string { return "unix://" + peerSocket(i) }

// peerSocket is a file name that net/http takes for a host with a port; localhost keeps it from asking a web proxy.
func peerSocket(i int) string { return fmt.Sprintf("localhost:%d", i+1) }
