package zk

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/farsync/farsync/driver"
)

// Curator's names. A protected node is _c_<id>-<name><sequence>, and the queue's order is the order of the text behind
// the last <name>. Curator's id is a UUID, and it looks for none but its own. Ours are half as long: of a long queue a
// waiter reads all names twice.
var names = [...]string{
	driver.Exclusive: "lock-",
	driver.Write:     "__WRIT__",
	driver.Read:      "__READ__",
	driver.Candidate: "latch-",
	driver.Permit:    "permit-", // ours: <n>- follows
}

const (
	protected = "_c_"
	markSize  = 12 // of 32 letters and digits: 60 random bits
	seqDigits = 10
	// lastSequence is the highest that the server gives. See placed.
	lastSequence = "2147483647"
)

// A node is a child of a queue.
type node struct {
	name string
	// order is what Curator's comparator sorts by.
	order string
	kind  driver.Kind
	units int64
}

// newMark returns what the names of a session's entries begin with. It is drawn anew for each session, so that a
// session knows its own entries by their names.
func newMark() string { return protected + rand.Text()[:markSize] }

// marked reports whether a name begins with the mark of a session of farsync's. It says nothing of who has made the node.
func marked(name string) bool {
	mark, found := strings.CutPrefix(name, protected)
	if !found || len(mark) <= markSize {
		return false
	}
	for _, c := range []byte(mark[:markSize]) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return mark[markSize] >= '0' && mark[markSize] <= '9'
}

// newName returns the name to create the nth entry of a session under, up to the sequence that the server adds.
func newName(mark string, nth uint64, k driver.Kind, units int64) string {
	name := strconv.AppendUint([]byte(mark), nth, 10)
	name = append(append(name, '-'), names[k]...)
	if k == driver.Permit {
		name = append(strconv.AppendInt(name, units, 10), '-')
	}
	return string(name)
}

// readName returns the path of the reader's node that takes the place of a writer's. The same for each attempt.
func readName(path string) string {
	i := strings.LastIndex(path, names[driver.Write])
	return path[:i] + names[driver.Read] + path[i+len(names[driver.Write]):]
}

// confirmed reports whether the server has completed an ID with a sequence.
func confirmed(id string) bool {
	return !strings.HasSuffix(id, "-") && !strings.HasSuffix(id, "__")
}

func nameOf(path string) string   { return path[strings.LastIndexByte(path, '/')+1:] }
func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// parseNode returns what a child's name stands for, as an entry of the given family reads it: a name means what the
// recipe that reads it takes it for. A node of another family that has a sequence stands in its place in the same
// order: Curator's recipes do not see one another on one path, but ours do. Whatever else there is is foreign, and
// sorts by its whole name, as it does for Curator.
func parseNode(name string, family driver.Kind) node {
	if n, ok := parseAs(name, family); ok {
		return n
	}
	for _, other := range []driver.Kind{driver.Exclusive, driver.Write, driver.Candidate, driver.Permit} {
		if n, ok := parseAs(name, other); ok && sequence(n.order) {
			return n
		}
	}
	return node{name: name, order: name, kind: driver.Foreign, units: 1}
}

// parseAs returns what a name is to a family, and false if it is none of its names.
func parseAs(name string, family driver.Kind) (n node, ok bool) {
	n = node{name: name, order: name, kind: family, units: 1}
	switch family {
	case driver.Write, driver.Read:
		// Curator looks for one name, and in what is left for the other.
		for _, k := range []driver.Kind{driver.Read, driver.Write} {
			if order, found := cutLast(n.order, names[k]); found {
				n.order, n.kind, ok = order, k, true
			}
		}
		return n, ok
	case driver.Permit:
		rest, found := cutLast(name, names[driver.Permit])
		digits, order, _ := strings.Cut(rest, "-")
		units, err := strconv.ParseInt(digits, 10, 64)
		n.order, n.units = order, units
		return n, found && err == nil && units > 0 && strconv.FormatInt(units, 10) == digits && sequence(order)
	}
	n.order, ok = cutLast(name, names[family])
	return n, ok
}

// cutLast returns what is behind the last occurrence of mark. Mostly the last of its dashes ends it, which is found
// sooner.
func cutLast(s, mark string) (string, bool) {
	if i := strings.LastIndexByte(s, '-') + 1; strings.HasSuffix(mark, "-") && strings.HasSuffix(s[:i], mark) {
		return s[i:], true
	}
	i := strings.LastIndex(s, mark)
	if i < 0 {
		return s, false
	}
	return s[i+len(mark):], true
}

// sequence reports whether s is a sequence as the server writes them, not negative.
func sequence(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil && len(s) == seqDigits
}

// placed reports whether s is a sequence that no other node of the queue has, and that is above the sequences of all
// nodes that were made before. The server counts the nodes that were ever made below one parent, in a signed 32-bit
// number that stops at lastSequence: every further node has that number, and nodes of one number sort by the random
// parts of their names. A node that is made right behind another, before the server has carried that out, has a
// negative number, and sorts ahead of the holder. So an entry that has come too late to be placed must not stand in the
// queue.
func placed(s string) bool { return sequence(s) && s != lastSequence }

// entry returns the node as an entry of a queue, whose node is path, with so many ahead of it.
func (n *node) entry(queue, path string, ahead int) driver.Entry {
	return driver.Entry{Queue: queue, ID: path + "/" + n.name, Kind: n.kind, Units: n.units, Ahead: ahead}
}

// arrange returns the children in the order of the queue. It sorts pointers: a comparison of two nodes costs less than
// to copy them.
func arrange(names children, family driver.Kind) []*node {
	var all []node
	for name := range names.all {
		all = append(all, parseNode(name, family))
	}
	nodes := make([]*node, len(all))
	for i := range all {
		nodes[i] = &all[i]
	}
	slices.SortFunc(nodes, byOrder)
	return nodes
}

// byOrder compares nodes by their places in the queue.
func byOrder(a, b *node) int {
	if c := strings.Compare(a.order, b.order); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}
