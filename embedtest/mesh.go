//go:build unix

package embedtest

import "fmt"

// A mesh is the network among the members of an ensemble: proxies for each ordered pair of members. The first member of
// a pair dials the second.
type mesh struct {
	proxies [][][]*Proxy // from, to
}

func newMesh(n int) *mesh {
	m := &mesh{proxies: make([][][]*Proxy, n)}
	for i := range m.proxies {
		m.proxies[i] = make([][]*Proxy, n)
	}
	return m
}

// connect gives every pair the proxies that link makes for it. Proxies that link returns along with an error are kept
// too, for close.
func (m *mesh) connect(link func(from, to int) ([]*Proxy, error)) error {
	for from, row := range m.proxies {
		for to := range row {
			if from == to {
				continue
			}
			var err error
			if row[to], err = link(from, to); err != nil {
				return fmt.Errorf("embedtest: connect member %d to member %d: %w", from, to, err)
			}
		}
	}
	return nil
}

func (m *mesh) isolate(i int) { m.eachOf(i, (*Proxy).Cut, (*Proxy).Cut) }

// mute has nothing arrive that member i says, on connections that it has made or accepted.
func (m *mesh) mute(i int) {
	m.eachOf(i, (*Proxy).CutRequests, (*Proxy).CutReplies)
}

// deafen has nothing arrive at member i.
func (m *mesh) deafen(i int) {
	m.eachOf(i, (*Proxy).CutReplies, (*Proxy).CutRequests)
}

// eachOf calls made with the proxies through which member i dials others, and accepted with those through which others
// dial it.
func (m *mesh) eachOf(i int, made, accepted func(*Proxy)) {
	for j := range m.proxies {
		for _, p := range m.proxies[i][j] {
			made(p)
		}
		for _, p := range m.proxies[j][i] {
			accepted(p)
		}
	}
}

func (m *mesh) heal() { m.each((*Proxy).Heal) }

func (m *mesh) close() { m.each(func(p *Proxy) { _ = p.Close() }) }

func (m *mesh) each(do func(*Proxy)) {
	for _, row := range m.proxies {
		for _, pair := range row {
			for _, p := range pair {
				do(p)
			}
		}
	}
}
