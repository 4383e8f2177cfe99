package etcd

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/driver"
)

// prefix is what the keys of a queue begin with.
func prefix(queue string) string { return queue + "/" }

// newKey returns a key that was never used: <queue>/<kind>-<id>. The id has 128 bits of chance.
func newKey(queue string, k driver.Kind, units int64) string {
	return prefix(queue) + kindText(k, units) + "-" + rand.Text()
}

// queueOf returns the queue of an entry's key: all before its last slash.
func queueOf(key string) string { return key[:max(0, strings.LastIndexByte(key, '/'))] }

// askSuffix makes a queue's path into that of the keys by which its entries are asked for. They lie outside of the queue,
// in which everything counts; and no path has a character like that.
const askSuffix = "!ask"

// askKey is where an entry is asked for: <queue>!ask/<kind>-<id>.
func askKey(e driver.Entry) string {
	return prefix(e.Queue+askSuffix) + strings.TrimPrefix(e.ID, prefix(e.Queue))
}

func isAsk(queue string) bool { return strings.HasSuffix(queue, askSuffix) }

// kinds are the first characters of the keys' last segments. A Permit's is s and its units.
var kinds = map[string]driver.Kind{
	"m": driver.Exclusive, "w": driver.Write, "r": driver.Read, "c": driver.Candidate,
}

func kindText(k driver.Kind, units int64) string {
	if k == driver.Permit {
		return "s" + strconv.FormatInt(units, 10)
	}
	for text, kind := range kinds {
		if kind == k {
			return text
		}
	}
	panic(fmt.Sprintf("etcd: no key for an entry of kind %v", k))
}

// parseKind returns what the part of a key behind the queue's prefix stands for. Whatever does not look like ours is
// foreign and asks for one unit. ok is false if it belongs to another queue, further down.
func parseKind(name string) (k driver.Kind, units int64, ok bool) {
	if strings.Contains(name, "/") {
		return driver.Foreign, 0, false
	}
	text, id, _ := strings.Cut(name, "-")
	if id == "" {
		return driver.Foreign, 1, true
	}
	if digits, isPermit := strings.CutPrefix(text, "s"); isPermit {
		// Only the way we write numbers: no sign, no leading zero.
		n, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && n > 0 && strconv.FormatInt(n, 10) == digits {
			return driver.Permit, n, true
		}
	}
	return kinds[text], 1, true // Foreign, if there is none
}

// parseEntry returns the entry that a key of the queue stands for. ok is false for keys of other queues.
func parseEntry(queue string, kv *mvccpb.KeyValue) (e driver.Entry, ok bool) {
	name, ok := strings.CutPrefix(string(kv.Key), prefix(queue))
	if !ok {
		return e, false
	}
	kind, units, ok := parseKind(name)
	if !ok {
		return e, false
	}
	if kind == driver.Write && kv.ModRevision != kv.CreateRevision {
		kind = driver.Read // downgraded in its place
	}
	e = driver.Entry{
		Queue: queue, ID: string(kv.Key), Kind: kind, Units: units, Revision: kv.CreateRevision, Version: kv.ModRevision,
	}
	e.Value, e.Since = parseValue(kind, kv.Value)
	return e, true
}

// makeValue returns a key's value. A candidate's is its own, byte for byte, as etcdctl elect expects; all others say
// the holder and since when.
func makeValue(k driver.Kind, words []byte, now time.Time) string {
	if k == driver.Candidate {
		return string(words)
	}
	return string(words) + "\n" + now.UTC().Format(time.RFC3339Nano)
}

// parseValue undoes makeValue. Values of others come back as they are, with no time.
func parseValue(k driver.Kind, value []byte) (words []byte, since time.Time) {
	if len(value) == 0 {
		return nil, since
	}
	if i := bytes.LastIndexByte(value, '\n'); i >= 0 && k != driver.Candidate {
		if t, err := time.Parse(time.RFC3339Nano, string(value[i+1:])); err == nil {
			return value[:i], t
		}
	}
	return value, since
}
