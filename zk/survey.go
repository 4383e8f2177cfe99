package zk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/farsync/farsync/driver"
)

// A shelf is a node that a survey has come to: a queue, or a node above queues.
type shelf struct {
	path  string // without the namespace
	names *read  // nil until they were asked for
}

// Survey walks the tree in the order of paths, in which /a-b stands between /a and /a/b: it goes on with the lowest
// node that it knows. The paths below a node are higher than the node itself, so nothing lower is found later. The
// nodes that come next are read ahead.
func (s *session) Survey(ctx context.Context, prefix, after string, limit int) (v driver.View, err error) {
	known := []shelf{{path: prefix[:max(0, strings.LastIndexByte(prefix, '/'))]}}
	for len(known) > 0 && (limit <= 0 || len(v.Entries) < limit) {
		for i, shelf := range known[:min(len(known), readAhead)] {
			if shelf.names == nil {
				known[i].names = s.begin(spot{opGetChildren, cmp.Or(s.path(shelf.path), "/"), false})
			}
		}
		at := known[0].path
		names, err := s.await(ctx, known[0].names)
		known = known[1:]
		if errors.Is(err, driver.ErrGone) {
			continue
		}
		if err != nil {
			return driver.View{}, err
		}
		q := names.queue(at, s.path(at), driver.Exclusive)
		for _, n := range q.nodes {
			if fromLocks(*n) {
				continue // an entry, below which there is nothing
			}
			path := at + "/" + n.name
			// The paths below path are lower than path0, for 0 follows the slash.
			if strings.HasPrefix(path, prefix) && path+"0" > after && path != "/zookeeper" {
				known = append(known, shelf{path: path})
			}
		}
		slices.SortFunc(known, func(a, b shelf) int { return strings.Compare(a.path, b.path) })
		if at > after && strings.HasPrefix(at, prefix) && slices.ContainsFunc(q.nodes, func(n *node) bool { return fromLocks(*n) }) {
			entries, all, err := s.fill(ctx, q.entries(len(q.nodes)), q.tail, 0)
			if err != nil && !all {
				return driver.View{}, err
			}
			// A persistent node is shown where it blocks others. It does not make of other programs' nodes a queue, whatever
			// its name.
			if slices.ContainsFunc(entries, func(e driver.Entry) bool {
				return e.Session != "" && fromLocks(parseNode(nameOf(e.ID), q.kind))
			}) {
				v.Entries = append(v.Entries, joined(entries)...)
			}
		}
	}
	return v, nil
}

// fromLocks reports whether a lock or an election gives a node such a name, farsync's, Curator's or a peer's. Other
// programs have ephemeral nodes, too.
func fromLocks(n node) bool { return n.kind != driver.Foreign && sequence(n.order) }
