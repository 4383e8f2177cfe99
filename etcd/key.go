package etcd

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/driver"
)

// letters begin the last segments of the keys of each kind. A Permit's is followed by its units.
var letters = [...]string{
	driver.Exclusive: "m", driver.Write: "w", driver.Read: "r", driver.Permit: "s", driver.Candidate: "c",
}

// prefix is what the keys of a queue begin with.
func prefix(queue string) string { return queue + "/" }

// queueOf returns the queue of an entry's key: all before its last slash.
func queueOf(key string) string { return key[:max(0, strings.LastIndexByte(key, '/'))] }

// beginOf returns what the key of an entry begins with. All of it is <queue>/<kind>-<id>.
func beginOf(queue string, k driver.Kind, units int64) string {
	return prefix(queue) + kindText(k, units) + "-"
}

// newID returns an id that was never used. It has 128 bits of chance.
//
// A permit's id begins with the time in place of 55 of them. So the keys of the permits that are nearest ahead of
// another lie side by side, and a watch on their range is sent few others. Nothing else rests on it: where clocks are
// apart the range is wider.
func newID(k driver.Kind) string {
	id := rand.Text()
	if k == driver.Permit {
		id = timeText(time.Now()) + id[timeLen:]
	}
	return id
}

const (
	// digits are the letters and digits of rand.Text, in the order in which they sort.
	digits = "234567ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// idLen is the length of an id, and of a rand.Text.
	idLen = 26
	// timeLen is the length of timeText: enough for microseconds until the year 3111.
	timeLen = 11
)

// timeText returns a time in the letters and digits of rand.Text, which sorts as times do.
func timeText(t time.Time) string {
	var text [timeLen]byte
	for i, n := timeLen-1, t.UnixMicro(); i >= 0; i, n = i-1, n>>5 {
		text[i] = digits[n&31]
	}
	return string(text[:])
}

func kindText(k driver.Kind, units int64) string {
	if k == driver.Permit {
		return letters[k] + strconv.FormatInt(units, 10)
	}
	return letters[k]
}

// parseKind returns what the last segment of a key stands for. Whatever does not look like ours is foreign, and asks
// for one unit.
func parseKind(name string) (driver.Kind, int64) {
	text, id, _ := strings.Cut(name, "-")
	if text == "" || id == "" {
		return driver.Foreign, 1
	}
	kind, units := driver.Kind(max(0, slices.Index(letters[:], text[:1]))), int64(1)
	if kind == driver.Permit {
		units, _ = strconv.ParseInt(text[1:], 10, 64)
	}
	if units < 1 || text != kindText(kind, units) { // there is one way to write it
		return driver.Foreign, 1
	}
	return kind, units
}

// fromLocks reports whether a key with a lease was made by a lock or an election, farsync's or etcd's own. Within a
// queue every key counts, whatever its name; this is for telling queues from what else lies in etcd, where other
// programs keep keys with leases, too.
func fromLocks(kv *mvccpb.KeyValue) bool {
	name := string(kv.Key[bytes.LastIndexByte(kv.Key, '/')+1:])
	if name == strconv.FormatInt(kv.Lease, 16) { // as concurrency and the lock service name their keys
		return true
	}
	if _, ok := turnLease(name); ok {
		return true
	}
	_, id, _ := strings.Cut(name, "-")
	kind, _ := parseKind(name)
	if kind == driver.Permit && isTold(id) {
		return true
	}
	return kind != driver.Foreign && len(id) == idLen && strings.Trim(id, digits) == ""
}

// toldLease is the length of the lease in the id of a told permit.
const toldLease = 16

// isTold reports whether an id names a told permit: <time>t<lease>. Stores of an earlier version make such permits,
// and tell one another which of them fit (docs/adr/0036). Here a told permit is a permit like any other.
func isTold(id string) bool {
	if len(id) != timeLen+len(turnMark)+toldLease || id[timeLen:timeLen+len(turnMark)] != turnMark {
		return false
	}
	at, lease := id[:timeLen], id[timeLen+len(turnMark):]
	number, err := strconv.ParseInt(lease, 16, 64)
	return strings.Trim(at, digits) == "" && strings.Trim(lease, "0123456789abcdef") == "" && number > 0 && err == nil
}

// parseEntry returns the entry that a key of the queue stands for. ok is false for keys of other queues.
func parseEntry(queue string, kv *mvccpb.KeyValue) (e driver.Entry, ok bool) {
	name, ok := strings.CutPrefix(string(kv.Key), prefix(queue))
	if !ok || strings.Contains(name, "/") {
		return e, false
	}
	kind, units := parseKind(name)
	if kind == driver.Write && kv.ModRevision != kv.CreateRevision {
		kind = driver.Read // downgraded in its place
	}
	e = driver.Entry{
		Queue: queue, ID: string(kv.Key), Kind: kind, Units: units, Revision: kv.CreateRevision, Version: kv.ModRevision,
	}
	if kv.Lease != 0 {
		e.Session = strconv.FormatInt(kv.Lease, 16)
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

// A key that belongs to a queue and is no entry lies outside of it, for in a queue everything counts. No path has a
// character like that, and a further slash keeps a key out of every queue above.
const (
	askSuffix  = "!ask"
	sizeSuffix = "!size"
)

// beside reports whether the keys of what passes for a queue lie beside one.
func beside(queue string) bool {
	return strings.HasSuffix(queue, askSuffix) || strings.HasSuffix(queue, turnSuffix)
}

// askKey is where an entry is asked for: <queue>!ask/<kind>-<id>.
func askKey(e driver.Entry) string {
	return prefix(e.Queue+askSuffix) + strings.TrimPrefix(e.ID, prefix(e.Queue))
}

// sizeKey is where a semaphore's size is.
func sizeKey(queue string) string { return prefix(queue+sizeSuffix) + "units" }
