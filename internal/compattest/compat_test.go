package compattest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// A backend is a service to play on.
type backend struct {
	name  string
	start func(testing.TB) service
}

// A service is a server that runs.
type service struct {
	address string
	// written returns what stands on the server for the queue at a path: names, values, and what they hang on.
	written func(t testing.TB, path string) []string
	// sizesApart is true if the two versions keep the size of a semaphore in different places.
	sizesApart bool
}

var backends = []backend{
	{"etcd", func(t testing.TB) service {
		endpoint := embedtest.Etcd(t).Endpoint()
		return service{endpoint, etcdWritten(t, endpoint), true}
	}},
	{"zk", func(t testing.TB) service {
		address := embedtest.ZooKeeper(t).Endpoint()
		return service{address, zkWritten(t, address), false}
	}},
}

// longTTL is that of players that live: no test comes near it.
const longTTL = time.Minute

func TestEarlierFarsyncSharesQueues(t *testing.T) {
	if !suite.More(t, suite.Etcd) {
		soon = 2 * time.Minute
	}
	executables := map[string]string{"old": oldPlayer(t), "new": newPlayer(t)}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			service := b.start(t)
			long := func(t *testing.T, why string) {
				if b.name == "zk" {
					suite.Long(t, suite.ZooKeeper, why)
				}
				suite.Long(t, suite.Etcd, why)
			}
			open := func(t testing.TB, version, name string, ttl time.Duration) *process {
				return start(t, executables[version], Settings{
					Backend: b.name, Server: service.address, Holder: version + " " + name, TTL: ttl,
				})
			}
			old, recent := []*process{open(t, "old", "1", longTTL), open(t, "old", "2", longTTL)},
				[]*process{open(t, "new", "1", longTTL), open(t, "new", "2", longTTL)}
			for _, order := range []struct {
				name  string
				a, b  []*process
				first string // version
			}{
				{"the old one first", old, recent, "old"},
				{"the new one first", recent, old, "new"},
			} {
				for _, r := range rows {
					t.Run(strings.Join([]string{r.name, order.name}, ", "), func(t *testing.T) {
						if r.long != "" {
							long(t, r.long)
						}
						if r.parallel {
							t.Parallel()
						}
						r.run(&scene{
							T: t, service: service, first: order.first,
							path: strings.Join([]string{"/compattest", order.first, strings.ReplaceAll(r.name, " ", "-")}, "/"),
							a:    order.a[0].in(t), a2: order.a[1].in(t), b: order.b[0].in(t), b2: order.b[1].in(t),
							mortal: func() contestant { return open(t, order.first, "mortal", shortTTL).in(t) },
						})
					})
				}
			}
			for _, m := range mixes {
				t.Run(m.name, func(t *testing.T) {
					long(t, "contenders of both versions, counted afterwards")
					m.run(t, "/compattest/mix/"+m.name, slices.Concat(old, recent))
				})
			}
		})
	}
}

// A scene is played by processes of two versions: a and a2 of one, b and b2 of the other.
type scene struct {
	*testing.T
	service
	path         string // its own
	first        string // which version a and a2 are of: old, or new
	a, a2, b, b2 contestant
	mortal       func() contestant // starts one of a's version that is to be killed
}

// agree waits until so many are in the queue, and makes sure that both versions see the same.
func (s *scene) agree(n int, size int64) []string {
	s.Helper()
	seen := s.a.sees(s.path, size, n)
	require.Equal(s, seen, s.b.sees(s.path, size, n))
	return seen
}

// holds makes sure that the first n of a queue hold, and no others.
func holds(t testing.TB, queue []string, n int) {
	t.Helper()
	for i, line := range queue {
		require.Equal(t, i < n, strings.Contains(line, "held true"), "%d hold of\n%s", n, strings.Join(queue, "\n"))
	}
}
