package zk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// childrenOf returns names as the server sends them.
func childrenOf(list ...string) children {
	var p frame
	for _, name := range list {
		p = p.text(name)
	}
	return children(p)
}

const uuid = "0f7c9e2a-6f0b-4c55-9b59-0f3e6a1d2b3c"

func TestNodesMeanWhatCuratorTakesThemFor(t *testing.T) {
	for _, row := range []struct {
		name   string
		family driver.Kind
		order  string
		kind   driver.Kind
		units  int64
		why    string
	}{
		{"_c_" + uuid + "-lock-0000000007", driver.Exclusive, "0000000007", driver.Exclusive, 1, "Curator's and ours"},
		{"_c_0f7c9e2a6f0b4c559b590f3e6a1d2b3c-lock-0000000007", driver.Exclusive, "0000000007", driver.Exclusive, 1,
			"zk.Lock's"},
		{"0f7c9e2a6f0b4c559b590f3e6a1d2b3c-lock-0000000007", driver.Exclusive, "0000000007", driver.Exclusive, 1,
			"kazoo's, with the names told it"},
		{"lock-0000000007", driver.Exclusive, "0000000007", driver.Exclusive, 1, "Curator's without protection"},
		{"_c_lock-lock-0000000007", driver.Exclusive, "0000000007", driver.Exclusive, 1, "the last one counts"},
		{"lock-", driver.Exclusive, "", driver.Exclusive, 1, "nothing sorts before everything, for Curator too"},
		{"_c_x", driver.Exclusive, "_c_x", driver.Foreign, 1, "Z6: no uuid"},
		{"_c_", driver.Exclusive, "_c_", driver.Foreign, 1, "Z6"},
		{"", driver.Exclusive, "", driver.Foreign, 1, "there is none such"},
		{"_c_" + uuid + "-latch-0000000001", driver.Exclusive, "0000000001", driver.Candidate, 1, "of another recipe"},
		{"_c_" + uuid + "-latch--000000001", driver.Exclusive, "_c_" + uuid + "-latch--000000001", driver.Foreign, 1,
			"of another recipe, out of order"},
		{"_c_" + uuid + "-__WRIT__0000000003", driver.Read, "0000000003", driver.Write, 1, "a reader sees writers"},
		{"_c_" + uuid + "-__READ__0000000003", driver.Write, "0000000003", driver.Read, 1, "a writer sees readers"},
		{"_c_" + uuid + "-lock-0000000003", driver.Write, "0000000003", driver.Exclusive, 1, "a mutex"},
		{"_c_" + uuid + "-permit-12-0000000003", driver.Permit, "0000000003", driver.Permit, 12, "ours alone"},
		{"_c_" + uuid + "-permit-012-0000000003", driver.Permit, "_c_" + uuid + "-permit-012-0000000003", driver.Foreign, 1,
			"one number, one way to write it"},
		{"_c_" + uuid + "-permit--1-0000000003", driver.Permit, "_c_" + uuid + "-permit--1-0000000003", driver.Foreign, 1,
			"nobody holds less than nothing"},
		{"_c_" + uuid + "-latch-0000000003", driver.Candidate, "0000000003", driver.Candidate, 1, "LeaderLatch's"},
	} {
		n := parseNode(row.name, row.family)
		require.Equal(t, node{row.name, row.order, row.kind, row.units}, n, row.why)
	}
}

func TestSequenceIsWhatTheServerWritesAndNotNegative(t *testing.T) {
	for text, want := range map[string]bool{
		"0000000000": true, "0000000007": true, lastSequence: true,
		"2147483648": false, "9999999999": false, // no signed 32-bit numbers
		"-000000001": false, "-2147483648": false, // after 2^31 creates
		"+000000001": false, "000000001": false, "00000000001": false, "": false, "000000000x": false, "00000 0000": false,
		"００００００": false,
	} {
		require.Equal(t, want, sequence(text), text)
	}
}

// TestLastPlaceIsTheOneBeforeTheLastNumber: the last number that the server's counter reaches is given to any number of nodes,
// and some have a negative one, which sorts before everything that is there.
func TestLastPlaceIsTheOneBeforeTheLastNumber(t *testing.T) {
	for seq, want := range map[int32]bool{
		0: true, math.MaxInt32 - 1: true, math.MaxInt32: false, math.MinInt32: false, math.MinInt32 + 1: false, -1: false,
	} {
		for _, kind := range kinds {
			require.Equal(t, want, placed(parseNode(named(kind, 3, seq), kind).order), "%v %d", kind, seq)
		}
	}
	require.True(t, sequence(lastSequence), "a node of another client's that has it stands in the queue")
}

// TestNamesOfASessionAreItsOwn: no two entries have one name, in whatever queue, and none of the names is the beginning of another, for a
// node is looked for by its name without the sequence.
func TestNamesOfASessionAreItsOwn(t *testing.T) {
	s := &session{service: &service{}, mark: newMark()}
	const callers, each = 8, 150
	ids := make(chan string, callers*each)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range each {
				ids <- s.NewID([]string{"/q", "/q/r"}[i%2], kinds[i%len(kinds)], int64(i+1))
			}
		})
	}
	all.Wait()
	close(ids)
	var names []string
	for id := range ids {
		require.True(t, strings.HasPrefix(nameOf(id), s.mark), id)
		names = append(names, nameOf(id))
	}
	slices.Sort(names)
	for i, name := range names[1:] { // what a name begins stands right behind it
		require.False(t, strings.HasPrefix(name, names[i]), "%s begins with %s", name, names[i])
	}
}

func TestForeignSiblingsAreHarmless(t *testing.T) {
	own := named(driver.Exclusive, 1, 5)
	for _, row := range []struct {
		sibling string
		ahead   bool
	}{
		{"_c_x", false},
		{"_c_", false},
		{"leases", false},
		{"locks", false},
		{"write", false},
		{"job", false},
		{"!first", true},
		{"0000000004", true},
		{"0", true},
		{"0000000006", false},
		{"lock--000000001", true}, // a Curator client's, after the counter has run over
		{"lock-", true},
		{"é", false},
		{"\U0001f512", false},
	} {
		nodes := arrange(childrenOf(own, row.sibling), driver.Exclusive)
		require.Equal(t, row.ahead, nodes[0].name == row.sibling, row.sibling)
	}
}

func FuzzNodeNamesRoundTrip(f *testing.F) {
	f.Add(uint8(0), int64(1), int32(0))
	f.Add(uint8(3), int64(math.MaxInt64), int32(math.MaxInt32))
	f.Add(uint8(1), int64(7), int32(-1))
	f.Fuzz(func(t *testing.T, which uint8, units int64, seq int32) {
		kind := kinds[int(which)%len(kinds)]
		if kind != driver.Permit {
			units = 1
		}
		if units < 1 {
			return
		}
		name := named(kind, units, seq)
		require.NoError(t, checkName(name))
		n := parseNode(name, kind)
		if seq < 0 {
			require.False(t, sequence(n.order))
			return
		}
		require.Equal(t, node{name, fmt.Sprintf("%010d", seq), kind, units}, n)
		require.True(t, sequence(n.order))
	})
}

// FuzzOrderIsCurators holds the order against Curator's comparator: whoever has the lock has to be the same for both.
func FuzzOrderIsCurators(f *testing.F) {
	for _, name := range []string{"_c_x", "", "lock-", "lock--000000001", "!", "0", "x-lock-0000000003", "\xff", "\U0001f512",
		"_c_" + uuid + "-__READ__0000000003", "_c_" + uuid + "-__READ____WRIT__0000000003"} {
		f.Add(name, uint8(0), int32(3))
		f.Add(name, uint8(1), int32(4))
	}
	f.Fuzz(func(t *testing.T, sibling string, which uint8, seq int32) {
		if seq < 0 {
			return
		}
		kind := kinds[int(which)%len(kinds)]
		own := named(kind, 1, seq)
		nodes := arrange(childrenOf(sibling, own), kind)
		require.Len(t, nodes, 2)
		if kind == driver.Permit {
			return // not shared with Curator
		}
		if _, ok := parseAs(sibling, kind); !ok && parseNode(sibling, kind).kind != driver.Foreign {
			return // of another family, which Curator does not see
		}
		mine, other := curatorOrder(own, kind), curatorOrder(sibling, kind)
		if mine == other {
			return // Curator leaves it to chance
		}
		require.Equal(t, compareAsJava(other, mine) < 0, nodes[0].name == sibling, "%q and %q", other, mine)
	})
}

var kinds = []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate}

// named is a node's name as the server makes it.
func named(k driver.Kind, units int64, seq int32) string {
	return newName(newMark(), rand.Uint64(), k, units) + fmt.Sprintf("%010d", seq)
}

// checkName holds a name to the form that the package documents.
func checkName(name string) error {
	if !documented.MatchString(name) {
		return fmt.Errorf("%q has another form", name)
	}
	return nil
}

var documented = regexp.MustCompile(`^_c_[A-Z2-7]{12}[0-9]+-(lock-|latch-|__WRIT__|__READ__|permit-[1-9][0-9]*-)(-[0-9]{9,10}|[0-9]{10})$`)

// curatorOrder is what StandardLockInternalsDriver.standardFixForSorting makes of a name, and the sorter of
// InterProcessReadWriteLock.
func curatorOrder(name string, kind driver.Kind) string {
	fix := func(name, lockName string) string {
		i := strings.LastIndex(name, lockName)
		if i < 0 {
			return name
		}
		return name[i+len(lockName):]
	}
	switch kind {
	case driver.Write, driver.Read:
		return fix(fix(name, "__READ__"), "__WRIT__")
	case driver.Candidate:
		return fix(name, "latch-")
	default:
		return fix(name, "lock-")
	}
}

// compareAsJava is String.compareTo.
func compareAsJava(a, b string) int {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return int(x[i]) - int(y[i])
		}
	}
	return len(x) - len(y)
}

// TestNamesOfSessionsAreTold from the names that Curator and other programs give.
func TestNamesOfSessionsAreTold(t *testing.T) {
	for range 100 {
		require.True(t, marked(newName(newMark(), 1, driver.Read, 1)))
	}
	for _, name := range []string{
		"", "0", "_c_", "lock-0000000000", "_c_9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d-lock-0000000000", "_c_ABCDEFGHIJKL", "_c_ABCDEFGHIJKL-lock-0000000000",
		"_c_abcdefghijkl1-lock-0000000000", "c_ABCDEFGHIJKL1-lock-0000000000",
	} {
		require.False(t, marked(name), name)
	}
}
