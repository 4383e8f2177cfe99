package zk

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/farsync/farsync/recipe"
)

// Curator's names. A protected node is _c_<uuid>-<name><sequence>, and the queue's order is that of the text behind
// the last <name>.
const (
	nameLock   = "lock-"
	nameWrite  = "__WRIT__"
	nameRead   = "__READ__"
	nameLatch  = "latch-"
	namePermit = "permit-"

	protected = "_c_"
	uuidSize  = 36
	seqDigits = 10
	// lastSequence is the highest that the server gives before its counter wraps.
	lastSequence = "2147483647"
)

// A node is a child of a queue.
type node struct {
	name string
	// order is what Curator's comparator sorts by.
	order string
	kind  recipe.Kind
	units int64
}

// newName returns the name to create an entry under, up to the sequence that the server adds: _c_<uuid>-<name>.
func newName(k recipe.Kind, units int64) string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, as Java's UUID.randomUUID
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return protected + uuid + "-" + kindName(k, units)
}

func kindName(k recipe.Kind, units int64) string {
	switch k {
	case recipe.Exclusive:
		return nameLock
	case recipe.Write:
		return nameWrite
	case recipe.Read:
		return nameRead
	case recipe.Permit:
		return namePermit + strconv.FormatInt(units, 10) + "-"
	case recipe.Candidate:
		return nameLatch
	default:
		panic(fmt.Sprintf("zk: no node for an entry of kind %v", k))
	}
}

// parseNode returns what a child's name stands for, to an entry of the family: the kind of the entry that looks, for
// names mean what the recipe that reads them takes them for. Whatever is not of the family is foreign, and sorts by its
// whole name, as it does for Curator.
func parseNode(name string, family recipe.Kind) node {
	n := node{name: name, order: name, kind: recipe.Foreign, units: 1}
	switch family {
	case recipe.Write, recipe.Read:
		// Curator looks for the one, and in what is left for the other.
		if order, ok := cutLast(name, nameRead); ok {
			n.order, n.kind = order, recipe.Read
		}
		if order, ok := cutLast(n.order, nameWrite); ok {
			n.order, n.kind = order, recipe.Write
		}
	case recipe.Permit:
		if rest, ok := cutLast(name, namePermit); ok {
			digits, order, _ := strings.Cut(rest, "-")
			units, err := strconv.ParseInt(digits, 10, 64)
			if err == nil && units > 0 && strconv.FormatInt(units, 10) == digits && sequence(order) {
				n.order, n.kind, n.units = order, recipe.Permit, units
			}
		}
	case recipe.Candidate:
		if order, ok := cutLast(name, nameLatch); ok {
			n.order, n.kind = order, recipe.Candidate
		}
	default:
		if order, ok := cutLast(name, nameLock); ok {
			n.order, n.kind = order, recipe.Exclusive
		}
	}
	return n
}

// familyOf guesses the family of a queue from the names of its children, for those who only look.
func familyOf(names []string) recipe.Kind {
	for _, name := range names {
		for _, f := range []struct {
			text string
			kind recipe.Kind
		}{{nameWrite, recipe.Write}, {nameRead, recipe.Write}, {namePermit, recipe.Permit}, {nameLatch, recipe.Candidate}} {
			if strings.HasPrefix(name, protected) && strings.Contains(name, f.text) {
				return f.kind
			}
		}
	}
	return recipe.Exclusive
}

// cutLast returns what is behind the last occurrence of mark.
func cutLast(s, mark string) (string, bool) {
	i := strings.LastIndex(s, mark)
	if i < 0 {
		return s, false
	}
	return s[i+len(mark):], true
}

// sequence reports whether s is a sequence as the server writes them, not negative. The counter is a signed 32-bit number
// that wraps, after which new nodes sort before old ones: such a queue has no order that could be trusted.
func sequence(s string) bool {
	if len(s) != seqDigits {
		return false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && n >= 0 && s[0] != '+' && s[0] != '-'
}

// arrange returns the children in the order of the queue.
func arrange(names []string, family recipe.Kind) []node {
	nodes := make([]node, len(names))
	for i, name := range names {
		nodes[i] = parseNode(name, family)
	}
	slices.SortFunc(nodes, func(a, b node) int {
		if c := strings.Compare(a.order, b.order); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return nodes
}
