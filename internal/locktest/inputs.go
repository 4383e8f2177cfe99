package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// A Mistaken is a service whose clients are given what is wrong on every service.
type Mistaken struct {
	// Open opens a client with these options.
	Open func(ctx context.Context, options farsync.Options) (*farsync.Store, error)
	// Opens is what the message of an Open begins with.
	Opens string
}

// Run gives it all inputs that are no service's own.
func (m Mistaken) Run(t *testing.T) {
	open := func(options farsync.Options) *farsync.Store {
		store, err := m.Open(context.Background(), options)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	closed := open(farsync.Options{})
	require.NoError(t, closed.Close())
	g := given{scene: &scene{T: t, path: "/inputs/" + rand.Text()}, store: open(farsync.Options{}), closed: closed, open: open}
	RunInputs(t, slices.Concat(m.options(), g.paths(), g.everywhere(), g.contexts(), g.nothing(), g.numbers(), g.leases()))
	g.noContext()
	for _, path := range goodPaths {
		t.Run("served: "+path[:min(len(path), 24)], func(t *testing.T) {
			lease, err := farsync.NewMutex(g.store, path).Lock(g.ctx())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		})
	}
	t.Run("paths that differ in the case of a letter are two locks", func(t *testing.T) {
		for _, name := range []string{"Ada", "ada", "ada.", "ada-", "ad"} {
			lease, err := farsync.NewMutex(g.store, g.path+"/"+name).TryLock(g.ctx())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, lease.Release()) })
		}
	})
}

// options returns the options that every Open refuses, before it asks for anything.
func (m Mistaken) options() (list []Input) {
	add := func(given, why string, options farsync.Options, says ...string) {
		list = append(list, Input{
			Given: given, Why: why, Says: append(says, m.Opens),
			Call: func(_ *testing.T, ctx context.Context, log *slog.Logger) error {
				options := options
				options.Logger = log
				store, err := m.Open(ctx, options)
				if err == nil {
					_ = store.Close()
				}
				return err
			},
		})
	}
	for _, d := range []time.Duration{
		-1, -time.Hour, 1, 30, time.Millisecond, time.Second - 1, 24*time.Hour + 1, 200_000 * time.Hour, math.MaxInt64, math.MinInt64,
	} {
		add(fmt.Sprintf("a TTL of %v", d), "30 without a unit is 30 ns: a lease that is lost at once, or a lock that is stuck for years",
			farsync.Options{TTL: d}, fmt.Sprintf("option TTL %v", d), "1s to 24h")
	}
	for given, holder := range map[string]struct{ text, says string }{
		"a byte too long":         {strings.Repeat("x", 1025), "1025 bytes, 1024 are allowed"},
		"a megabyte":              {strings.Repeat("x", 1<<20), "1048576 bytes"},
		"not UTF-8":               {"a\xffb", "not valid UTF-8"},
		"two lines":               {"a\nb", "U+000A"},
		"a return":                {"a\rb", "U+000D"},
		"NUL":                     {"a\x00", "U+0000"},
		"a character that turns":  {"a\u202eb", "U+202E"},
		"clears the screen":       {"\x1b[2J", "U+001B"},
		"a line separator":        {"a\u2028b", "U+2028"},
		"a space without a width": {"a\u200bb", "U+200B"},
	} {
		add("a Holder: "+given, "it stands in other people's lists and logs, one a line", farsync.Options{Holder: holder.text},
			"option Holder", holder.says)
	}
	return list
}

// given is what the other inputs are given to.
type given struct {
	*scene
	store, closed *farsync.Store
	open          func(farsync.Options) *farsync.Store
}

// input returns an input that ctx does not matter to.
func input(name, why string, call func(context.Context) error, is error, says ...string) Input {
	in := Input{
		Given: name, Why: why, Says: says,
		Call: func(_ *testing.T, ctx context.Context, _ *slog.Logger) error { return call(ctx) },
	}
	if is != nil {
		in.Is = []error{is}
	}
	return in
}

// panicking returns an input that is a mistake in the program.
func panicking(says string, call func(context.Context)) Input {
	in := input("panics: "+says, "a mistake in the program is found where it was made, not at the first failure of a service",
		func(ctx context.Context) error { call(ctx); return nil }, nil, says)
	in.Panics = true
	return in
}

// badPaths are not in the grammar.
var badPaths = []struct{ path, says string }{
	{"a", "no leading slash"},
	{"a//b", "no leading slash"},
	{" /a", "no leading slash"},
	{"..", "no leading slash"},
	{"\\a", "no leading slash"},
	{"/", "empty segment"},
	{"//", "empty segment"},
	{"//a", "empty segment"},
	{"/a//b", "empty segment"},
	{"/a/", "empty segment"},
	{"/.", "relative segment"},
	{"/..", "relative segment"},
	{"/a/../b", "relative segment"},
	{"/a\x00b", `character "\x00"`},
	{"/a\nb", `character "\n"`},
	{"/a\x7fb", `character "\x7f"`},
	{"/a b", `character " "`},
	{"/a%2fb", `character "%"`},
	{"/a:b", `character ":"`},
	{"/a!ask", `character "!"`}, // what etcd's keys of requests end with
	{"/\xff", `character "\xff"`},
	{"/a\u202eb", `character "\u202e"`},
	{"/é", `character "é"`},
	{"/" + strings.Repeat("x", 129), "longer than 128 bytes"},
	{strings.Repeat("/abcdefg", 128) + "/", "longer than 1024 bytes"},
	{strings.Repeat("/abcdefg", 1<<17), "longer than 1024 bytes"},
	{"/zookeeper", "/zookeeper is reserved"},
	{"/zookeeper/locks", "/zookeeper is reserved"},
	{"/_c_b", "reserved _c_"},
	{"/a/_c_b", "reserved _c_"},
}

// goodPaths look odd and are in the grammar. A driver takes no such path for a path and an entry.
var goodPaths = []string{
	"/a", "/zookeeperx", "/a/zookeeper", "/_c", "/a_c_b", "/...", "/-", "/m-1", "/a/m-1", "/" + strings.Repeat("a", 128),
	strings.Repeat("/abcdefg", 128),
}

func (g given) paths() (list []Input) {
	for _, bad := range badPaths {
		list = append(list, input(fmt.Sprintf("the path %.24q of %d", bad.path, len(bad.path)), "names come from data: what one store takes for another name, or for two, is no lock",
			func(ctx context.Context) error {
				_, err := farsync.NewMutex(g.store, bad.path).Lock(ctx)
				return err
			}, farsync.ErrPath, "farsync: lock: bad path", bad.says))
	}
	return list
}

// everywhere gives a bad path and a closed Store to every call.
func (g given) everywhere() (list []Input) {
	bad := &scene{T: g.T, path: "no slash"}
	for name, call := range bad.calls(g.store) {
		list = append(list, input("a bad path to "+name, "the caller can tell bad data from trouble", call, farsync.ErrPath, `"no slash`, "no leading slash"))
	}
	for name, call := range g.calls(g.closed) {
		list = append(list, input("a closed Store to "+name, "the caller can tell that it was its own doing", call, farsync.ErrClosed, "store closed", g.path))
	}
	return list
}

// contexts gives an ended ctx to every call.
func (g given) contexts() (list []Input) {
	cause := errors.New("the caller's reason")
	for _, name := range slices.Sorted(maps.Keys(g.calls(g.store))) {
		list = append(list, input("a ctx that was cancelled to "+name, "it asks for nothing, and says that the caller gave up", func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return g.calls(g.store)[name](ctx)
		}, context.Canceled, cause.Error(), g.path))
	}
	list = append(list, input("a ctx whose deadline has passed", "as above", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, -time.Hour)
		defer cancel()
		return g.calls(g.store)["Lock"](ctx)
	}, context.DeadlineExceeded, g.path))
	for i := range list {
		list[i].Never = []string{"session"} // there is one
	}
	return list
}

// noContext gives every call a nil ctx, which panics as in the standard library. The next caller must not wait for a
// call that has panicked.
func (g given) noContext() {
	var none context.Context
	for name, call := range g.calls(g.store) {
		g.Run("no ctx to "+name, func(t *testing.T) {
			require.Panics(t, func() { _ = call(none) })
			require.NoError(t, call(g.ctx()))
		})
	}
}
