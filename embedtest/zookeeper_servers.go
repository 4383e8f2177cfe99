//go:build unix

package embedtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
)

// ZooKeeperServers are a number of ZooKeeper servers that stand in for one another.
type ZooKeeperServers struct {
	ensemble
	members []*ZooKeeperServer
}

// StartZooKeeper starts n ZooKeeper servers that keep their data and logs under dir, which is made if need be, and
// waits until all are ready or ctx is done. One server stands alone; more are an ensemble, which has use for an odd
// number. Servers that find their data there go on with it, if n is the same. They live until Close, also when ctx is
// done later; on failure nothing is left running. The error is [ErrNoZooKeeper] where there is nothing to run.
func StartZooKeeper(ctx context.Context, dir string, n int, options ...Option) (*ZooKeeperServers, error) {
	if n < 1 {
		panic("embedtest: StartZooKeeper: n < 1")
	}
	java, jars, err := FindZooKeeper()
	if err != nil {
		return nil, err
	}
	e := new(ZooKeeperServers)
	err = e.prepare(dir, n, java, jars, settingsOf(options))
	if err == nil {
		err = e.start(ctx)
	}
	if err != nil {
		_ = e.Close() // err says it all
		return nil, err
	}
	return e, nil
}

// Member returns the member with index i, counted from 0. ZooKeeper itself counts them from 1.
func (e *ZooKeeperServers) Member(i int) *ZooKeeperServer { return e.members[i] }

// Leader waits until one of the members leads and can commit, and returns its index, or ctx's error. A leader that has
// just been isolated is not one, though it may still believe so. For a server that stands alone it is 0.
func (e *ZooKeeperServers) Leader(ctx context.Context) (int, error) {
	return e.awaitLeader(ctx, e.leading)
}

func (e *ZooKeeperServers) prepare(dir string, n int, java string, jars []string, settings settings) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	quorum, election := make([]port, n), make([]port, n)
	for i := range n {
		m := &ZooKeeperServer{server: server{
			name: fmt.Sprintf("ZooKeeper server %d", i+1),
			log:  filepath.Join(dir, fmt.Sprintf("m%d", i), "log"),
		}}
		m.probe = m.serving
		e.members = append(e.members, m)
		e.servers = append(e.servers, &m.server)
		for range 3 {
			kept, err := reservePort()
			if err != nil {
				return err
			}
			m.ports = append(m.ports, kept) // released by Close
		}
		m.endpoint = m.ports[0].addr()
		quorum[i], election[i] = m.ports[1], m.ports[2]
	}
	peers, err := e.connect(quorum, election, settings)
	if err != nil {
		return err
	}
	for i, m := range e.members {
		member := zooKeeperMember{home: filepath.Dir(m.log), client: m.ports[0], id: i + 1, peers: peers[i]}
		if err := member.write(settings); err != nil {
			return err
		}
		if settings.clock {
			if m.time, err = newClock(member.home, "/"); err != nil {
				return err
			}
		}
		m.command = func() (*exec.Cmd, error) {
			command := member.command(java, jars, settings)
			if m.time != nil {
				command.Env = m.time.environment()
			}
			return command, nil
		}
	}
	return nil
}

// connect returns what each member is to know of all: of itself where it listens, of the others where its links to them
// begin. Members compare the versions of what they know and not the addresses.
func (e *ZooKeeperServers) connect(quorum, election []port, settings settings) ([][]string, error) {
	n := len(e.members)
	peers := make([][]string, n)
	if n == 1 {
		return peers, nil
	}
	for i := range n {
		peers[i] = make([]string, n)
		for j := range n {
			peers[i][j] = fmt.Sprintf("127.0.0.1:%d:%d", quorum[j].number, election[j].number)
		}
	}
	if settings.bench {
		return peers, nil
	}
	e.mesh = newMesh(n)
	link := func(route route) (*Proxy, error) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		route.network = "tcp"
		return newProxy(listener, route), nil
	}
	numberOf := func(p *Proxy) int { return p.listener.Addr().(*net.TCPAddr).Port }
	err := e.mesh.connect(func(from, to int) ([]*Proxy, error) {
		// A follower whose connection breaks drops out of the election that it has just taken part in, and its leader
		// then waits for it in vain, for initLimit. A refused one it tries again; so we do that for it.
		toQuorum, err := link(route{target: quorum[to].addr(), patience: zooKeeperPatience})
		if err != nil {
			return nil, err
		}
		toElection, err := link(route{target: election[to].addr(), opening: withoutAddress})
		if err != nil {
			return []*Proxy{toQuorum}, err
		}
		peers[from][to] = fmt.Sprintf("127.0.0.1:%d:%d", numberOf(toQuorum), numberOf(toElection))
		return []*Proxy{toQuorum, toElection}, nil
	})
	return peers, err
}

func (e *ZooKeeperServers) leading(ctx context.Context) (leader int, ok bool) {
	found := make(chan int, len(e.members))
	for i, m := range e.members {
		go func() { // ends with ctx and is joined below
			mode, err := m.mode(ctx)
			if err == nil && (mode == "leader" || mode == "standalone") && m.commits(ctx) == nil {
				found <- i
			} else {
				found <- -1
			}
		}()
	}
	leader = -1
	for range e.members {
		leader = max(leader, <-found) // two cannot both have committed, but for an election in between
	}
	return leader, leader >= 0
}

// withoutAddress reads what a server says first on an election connection, and turns it into the form of old, a bare
// id. Of two servers, only the server with the higher id may connect to the other. At a connection in the wrong
// direction it therefore calls back, and if it is told an address then there: past our links, which only the caller
// knows.
//
// The form of now is in QuorumCnxManager.InitialMessage: version, which is negative; id; length; addresses.
func withoutAddress(from io.Reader) ([]byte, error) {
	var id [8]byte
	if _, err := io.ReadFull(from, id[:]); err != nil {
		return nil, err
	}
	if version := int64(binary.BigEndian.Uint64(id[:])); version >= 0 {
		return id[:], nil
	}
	if _, err := io.ReadFull(from, id[:]); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	const most = 512 // as in ZooKeeper
	n := binary.BigEndian.Uint32(length[:])
	if n > most {
		return nil, errors.New("embedtest: not an election connection")
	}
	_, err := io.CopyN(io.Discard, from, int64(n))
	return id[:], err
}
