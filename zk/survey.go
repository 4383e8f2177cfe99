package zk

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// A shelf is a node that a survey has come to: a queue, or a node above queues.
type shelf struct {
	path  string // without the namespace
	names *read  // nil until they were asked for
}

// shelves are the nodes that a survey knows of and has not come to, as a heap: the lowest path comes first.
type shelves []*shelf

func (s shelves) Len() int           { return len(s) }
func (s shelves) Less(i, j int) bool { return s[i].path < s[j].path }
func (s shelves) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shelves) Push(x any)        { *s = append(*s, x.(*shelf)) }
func (s *shelves) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// Survey walks the tree in the order of paths, in which /a-b stands between /a and /a/b: it goes on with the lowest
// node that it knows. The paths below a node are higher than the node itself, so nothing lower is found later. The
// nodes that come next are read ahead.
//
// A node that an ACL hides is shown as a queue that may not be read. A node at which the walk begins is refused.
func (s *session) Survey(ctx context.Context, prefix, after string, limit int) (v driver.View, err error) {
	top := prefix[:max(0, strings.LastIndexByte(prefix, '/'))]
	known, ahead := shelves{{path: top}}, []*shelf(nil)
	defer func() {
		for _, next := range append(ahead, known...) {
			if next.names != nil {
				s.leave(next.names)
			}
		}
	}()
	for len(known)+len(ahead) > 0 && (limit <= 0 || len(v.Entries) < limit) {
		for len(known) > 0 && (len(ahead) < readAhead || known[0].path < ahead[len(ahead)-1].path) {
			next := heap.Pop(&known).(*shelf)
			if next.names == nil {
				next.names = s.begin(spot{opGetChildren, cmp.Or(s.path(next.path), "/"), false})
			}
			at, _ := slices.BinarySearchFunc(ahead, next, func(a, b *shelf) int { return strings.Compare(a.path, b.path) })
			if ahead = slices.Insert(ahead, at, next); len(ahead) > readAhead {
				heap.Push(&known, ahead[readAhead]) // with its names, which are asked for already
				ahead = ahead[:readAhead]
			}
		}
		at := ahead[0].path
		names, err := s.await(ctx, ahead[0].names)
		ahead = ahead[1:]
		switch {
		case errors.Is(err, driver.ErrGone):
			continue
		case errors.Is(err, client.ErrNoAuth) && at != top:
			if at > after && strings.HasPrefix(at, prefix) {
				v.Entries = append(v.Entries, driver.Entry{Queue: at, Units: 1, Value: []byte(err.Error())})
			}
			continue
		case err != nil:
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
				heap.Push(&known, &shelf{path: path})
			}
		}
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
