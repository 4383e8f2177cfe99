package etcd

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/driver"
)

var allKinds = []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate}

// newKey returns a key that was never used.
func newKey(queue string, k driver.Kind, units int64) string {
	return beginOf(queue, k, units) + newID(k)
}

// made is a key as the server shows it when it was made.
func made(key, value string) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: 7, ModRevision: 7}
}

func TestKeysSayWhatTheyAre(t *testing.T) {
	for _, kind := range allKinds {
		for _, units := range []int64{1, 2, 10, 12345, math.MaxInt64} {
			if kind != driver.Permit && units > 1 {
				continue
			}
			key := newKey("/a/b", kind, units)
			e, ok := parseEntry("/a/b", made(key, makeValue(kind, []byte("who"), time.Now())))
			require.True(t, ok, key)
			require.Equal(t, kind, e.Kind, key)
			require.Equal(t, units, e.Units, key)
			require.Equal(t, key, e.ID)
			require.Equal(t, "/a/b", e.Queue)
			require.EqualValues(t, 7, e.Revision)
			require.Equal(t, "who", string(e.Value))
		}
	}
}

// TestNoTwoKeysAreAlike: not even those of one process, one session, one call.
func TestNoTwoKeysAreAlike(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		for _, kind := range []driver.Kind{driver.Exclusive, driver.Permit} {
			key := newKey("/a", kind, 1)
			require.False(t, seen[key])
			seen[key] = true
		}
	}
}

// TestKeysOfPermitsAreInTheOrderOfTime: also across everything that a digit may carry into.
func TestKeysOfPermitsAreInTheOrderOfTime(t *testing.T) {
	last := timeText(time.UnixMicro(0))
	for _, micros := range []int64{1, 31, 32, 33, 1<<20 - 1, 1 << 20, 1<<50 + 7, 1_795_000_000_000_000, 1<<55 - 1} {
		text := timeText(time.UnixMicro(micros))
		require.Len(t, text, timeLen)
		require.Greater(t, text, last)
		last = text
	}
	require.Regexp(t, "^/a/s1-[A-Z2-7]{26}$", newKey("/a", driver.Permit, 1), "as those of earlier versions")
}

// TestToldPermitsArePermits: earlier versions make them, with their lease in the name.
func TestToldPermitsArePermits(t *testing.T) {
	const at = "34567ABCDEF"
	for name, told := range map[string]bool{
		"s12-" + at + "t694d9f8a3b1c5e07":                 true,
		"s1-" + at + "t0000000000000007":                  true,
		"s1-" + newID(driver.Permit):                      false,
		"m-" + at + "t0000000000000007":                   false,
		"s0-" + at + "t0000000000000007":                  false,
		"s1-" + at + "t0000000000000000":                  false,
		"s1-" + at + "t00000000000000007":                 false,
		"s1-" + at + "t000000000000007":                   false,
		"s1-" + at + "T0000000000000007":                  false,
		"s1-" + at + "t000000000000000A":                  false,
		"s1-" + at + "t8000000000000000":                  false,
		"s1-" + at + "t+000000000000007":                  false,
		"s1-" + strings.ToLower(at) + "t0000000000000007": false,
	} {
		_, id, _ := strings.Cut(name, "-")
		kv := made("/a/"+name, "")
		kv.Lease = 7
		e, ok := parseEntry("/a", kv)
		require.True(t, ok, name)
		require.True(t, plain(e), name)
		require.Equal(t, told, isTold(id) && e.Kind == driver.Permit, name)
		require.Equal(t, told || len(id) == idLen, fromLocks(kv), name)
	}
	e, _ := parseEntry("/a", made("/a/s12-"+at+"t694d9f8a3b1c5e07", ""))
	require.Equal(t, driver.Permit, e.Kind)
	require.EqualValues(t, 12, e.Units)
	one, other := newKey("/a", driver.Permit, 1), "/a/s1-"+timeText(time.Now().Add(time.Second))+"t0000000000000007"
	require.Less(t, one, other, "keys of both forms are in one order of time")
}

// TestStrangersKeysAreForeign: what does not look exactly like ours counts as exclusive.
func TestStrangersKeysAreForeign(t *testing.T) {
	for _, name := range []string{
		"", "694d9f8a3b1c5e07", "lock", "m", "m-", "-", "-x", "M-x", "mm-x", "x-m", "s-x", "s0-x", "s-1-x", "s+1-x", "s01-x",
		"s1", "s1-", "s1.5-x", "s9223372036854775808-x", "r ead-x", "lock-0000000001", "\x00", "\xff-\xff",
	} {
		e, ok := parseEntry("/a", made("/a/"+name, "v"))
		require.True(t, ok, "%q", name)
		require.Equal(t, driver.Foreign, e.Kind, "%q", name)
		require.EqualValues(t, 1, e.Units, "%q", name)
	}
	for _, key := range []string{"/a", "/b/m-x", "/a/b/m-x", "/a/m-x/", "/a//m-x", "a/m-x", "/ab/m-x", ""} {
		_, ok := parseEntry("/a", made(key, "v"))
		require.False(t, ok, "%q is not of that queue", key)
	}
}

// TestWriterThatWasPutAgainReads: the key says writer for ever.
func TestWriterThatWasPutAgainReads(t *testing.T) {
	kv := made(newKey("/a", driver.Write, 1), "")
	e, ok := parseEntry("/a", kv)
	require.True(t, ok)
	require.Equal(t, driver.Write, e.Kind)
	kv.ModRevision++
	e, ok = parseEntry("/a", kv)
	require.True(t, ok)
	require.Equal(t, driver.Read, e.Kind)
}

// TestEveryKeyOfAQueueIsInItsRange: a prefix that ends in a slash is nobody else's.
func TestEveryKeyOfAQueueIsInItsRange(t *testing.T) {
	require.True(t, strings.HasPrefix(newKey("/a", driver.Read, 1), prefix("/a")))
	require.False(t, strings.HasPrefix(newKey("/ab", driver.Read, 1), prefix("/a")))
}

// FuzzKey: the keys under a path are anybody's.
func FuzzKey(f *testing.F) {
	for _, name := range []string{"m-X", "s12-X", "w-X", "r-X", "c-X", "a/b", "", "-", "s-9-X", "\x00", "s9223372036854775807-X", "s3-34567ABCDEFt694d9f8a3b1c5e07"} {
		f.Add(name, int64(3))
	}
	f.Fuzz(func(t *testing.T, name string, units int64) {
		e, ok := parseEntry("/q", made("/q/"+name, ""))
		require.Equal(t, !strings.Contains(name, "/"), ok)
		if ok {
			require.Positive(t, e.Units)
			if e.Kind == driver.Foreign {
				require.EqualValues(t, 1, e.Units)
			} else {
				// There is one way to write it.
				require.True(t, strings.HasPrefix(name, kindText(e.Kind, e.Units)+"-"), "%q", name)
			}
		}
		if units > 0 {
			key := newKey("/q", driver.Permit, units)
			e, ok := parseEntry("/q", made(key, ""))
			require.True(t, ok)
			require.Equal(t, driver.Permit, e.Kind)
			require.Equal(t, units, e.Units)
		}
	})
}

// FuzzValue: values too, and what we wrote comes back as it was.
func FuzzValue(f *testing.F) {
	for _, words := range []string{"", "host pid 1", "a\nb", "\n", "\x00", "x\n2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"} {
		f.Add([]byte(words), int64(1_767_323_045), int64(6))
	}
	f.Fuzz(func(t *testing.T, words []byte, seconds, nanos int64) {
		// As it came from a stranger.
		for _, kind := range append(allKinds, driver.Foreign) {
			e, ok := parseEntry("/q", made("/q/x", string(words)))
			require.True(t, ok)
			require.LessOrEqual(t, len(e.Value), len(words))
			parsed, _ := parseValue(kind, words)
			require.True(t, strings.HasPrefix(string(words), string(parsed)))
		}
		// As we wrote it.
		now := time.Unix(seconds%(1<<37), nanos%1e9)
		if year := now.UTC().Year(); year < 0 || year > 9999 {
			return // the format has no word for it
		}
		for _, kind := range allKinds {
			parsed, since := parseValue(kind, []byte(makeValue(kind, words, now)))
			require.Equal(t, string(words), string(parsed))
			if kind == driver.Candidate {
				require.True(t, since.IsZero())
			} else {
				require.True(t, now.Equal(since), "%v, not %v", since, now)
			}
		}
	})
}
