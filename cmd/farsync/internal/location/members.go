package location

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Member is one of the servers that a Location names, as it was found.
type Member struct {
	Host string
	// Version is what the server says it is, and more about it where there is more. Empty if it does not say.
	Version string
	// Ahead is how far its clock is ahead of this host's, give or take Doubt, if Clock is true: where the server says what
	// time it is.
	Ahead, Doubt time.Duration
	Clock        bool
	// Wrong is what is wrong with it.
	Wrong []error
}

// Members asks every server by itself whether it serves, as a Store does not: a Store goes on with the servers that do.
// Each has a third of DialTimeout to answer. A file has no servers. The error is ErrConfig.
func (l *Location) Members(ctx context.Context) ([]Member, error) {
	from, err := l.credentials(nil)
	if err != nil {
		return nil, err
	}
	list := make([]Member, len(l.Hosts))
	var asking sync.WaitGroup
	for i, host := range l.Hosts {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, l.Patience()/3)
			defer cancel()
			list[i] = l.member(ctx, host, from)
		})
	}
	asking.Wait()
	return list, nil
}

func (l *Location) member(ctx context.Context, host string, from *credentials) Member {
	m := Member{Host: host}
	password, config := from.last()
	var err error
	switch {
	case l.Scheme == "etcd":
		err = m.askEtcd(ctx, l, from)
	case l.Scheme == "zk" && config == nil: // the port for TLS knows no such questions
		err = m.askZooKeeper(ctx)
	case l.Scheme == "redis":
		err = m.askRedis(ctx, l, password, config)
	default:
		if err = m.dial(ctx); err == nil {
			m.askDatabase(ctx, l, password, config)
		}
	}
	if err != nil {
		m.Wrong = append(m.Wrong, fmt.Errorf("does not answer: %w", err))
	}
	return m
}

// dial only connects.
func (m *Member) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// compare notes how far the clock of the server is ahead, by the middle of the time that it takes to ask.
func (m *Member) compare(ask func() (time.Time, error)) error {
	sent := time.Now()
	at, err := ask()
	if err != nil {
		return err
	}
	m.Doubt = time.Since(sent) / 2
	m.Ahead, m.Clock = at.Sub(sent)-m.Doubt, true
	return nil
}

// Strays returns what lies in the queues below a prefix and ends with no session: keys without a lease on etcd, nodes
// that are not ephemeral on ZooKeeper. Each blocks its queue for ever, and is no participant. On other stores it is a
// participant. An entry that is known to have a session is left out, and no value of other programs is read. Sized are
// the paths that have a size on etcd, where it outlives the users of a semaphore.
func (l *Location) Strays(ctx context.Context, prefix string, known map[string]bool) (strays, sized []string, err error) {
	from, err := l.credentials(nil)
	switch {
	case err != nil:
		return nil, nil, err
	case l.Scheme == "etcd":
		return l.strayKeys(ctx, prefix, known, from)
	case l.Scheme == "zk":
		password, config := from.last()
		strays, err = l.strayNodes(ctx, prefix, known, password, config)
		return strays, nil, err
	default:
		return nil, nil, nil
	}
}
