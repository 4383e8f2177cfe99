package etcd

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/recipe"
)

// prefix is what the keys of a queue begin with.
func prefix(queue string) string { return queue + "/" }

// newKey returns a key that was never used: <queue>/<kind>-<id>. The id has 128 bits of chance.
func newKey(queue string, k recipe.Kind, units int64) string {
	return prefix(queue) + kindText(k, units) + "-" + rand.Text()
}

func kindText(k recipe.Kind, units int64) string {
	switch k {
	case recipe.Exclusive:
		return "m"
	case recipe.Write:
		return "w"
	case recipe.Read:
		return "r"
	case recipe.Permit:
		return "s" + strconv.FormatInt(units, 10)
	case recipe.Candidate:
		return "c"
	default:
		panic(fmt.Sprintf("etcd: no key for an entry of kind %v", k))
	}
}

// parseKind returns what the part of a key behind the queue's prefix stands for. Whatever does not look like ours is
// foreign and asks for one unit. ok is false if it belongs to another queue, further down.
func parseKind(name string) (k recipe.Kind, units int64, ok bool) {
	if strings.Contains(name, "/") {
		return recipe.Foreign, 0, false
	}
	kind, id, found := strings.Cut(name, "-")
	if !found || id == "" || kind == "" {
		return recipe.Foreign, 1, true
	}
	switch kind {
	case "m":
		return recipe.Exclusive, 1, true
	case "w":
		return recipe.Write, 1, true
	case "r":
		return recipe.Read, 1, true
	case "c":
		return recipe.Candidate, 1, true
	}
	if digits, isPermit := strings.CutPrefix(kind, "s"); isPermit {
		// Only the way we write numbers: no sign, no leading zero.
		n, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && n > 0 && strconv.FormatInt(n, 10) == digits {
			return recipe.Permit, n, true
		}
	}
	return recipe.Foreign, 1, true
}

// parseEntry returns the entry that a key of the queue stands for. ok is false for keys of other queues.
func parseEntry(queue string, kv *mvccpb.KeyValue) (e recipe.Entry, ok bool) {
	name, ok := strings.CutPrefix(string(kv.Key), prefix(queue))
	if !ok {
		return e, false
	}
	kind, units, ok := parseKind(name)
	if !ok {
		return e, false
	}
	if kind == recipe.Write && kv.ModRevision != kv.CreateRevision {
		kind = recipe.Read // downgraded in its place
	}
	e = recipe.Entry{Queue: queue, ID: string(kv.Key), Kind: kind, Units: units, Revision: kv.CreateRevision}
	e.Value, e.Since = parseValue(kind, kv.Value)
	return e, true
}

// makeValue returns a key's value. A candidate's is its own, byte for byte, as etcdctl elect expects; all others say
// who it is and since when.
func makeValue(k recipe.Kind, words []byte, now time.Time) string {
	if k == recipe.Candidate {
		return string(words)
	}
	return string(words) + "\n" + now.UTC().Format(time.RFC3339Nano)
}

// parseValue undoes makeValue. Values of others come back as they are, with no time.
func parseValue(k recipe.Kind, value []byte) (words []byte, since time.Time) {
	if len(value) == 0 {
		return nil, since
	}
	if i := bytes.LastIndexByte(value, '\n'); i >= 0 && k != recipe.Candidate {
		if t, err := time.Parse(time.RFC3339Nano, string(value[i+1:])); err == nil {
			return value[:i], t
		}
	}
	return value, since
}
