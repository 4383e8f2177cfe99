package main

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are packages that import one another, without the standard library: that would have to be compiled.
type sources map[string]string

func (s sources) Import(path string) (*types.Package, error) {
	text, ok := s[path]
	if !ok {
		return nil, errors.New("no package " + path)
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, text, 0)
	if err != nil {
		return nil, err
	}
	config := types.Config{Importer: s}
	return config.Check(path, positions, []*ast.File{file}, nil)
}

func TestALineASymbol(t *testing.T) {
	pkg, err := sources{
		"example.org/other/v2": "package other\ntype Client struct{ Address string }\nfunc (*Client) Ping() error { return nil }",
		"m/recipe":             "package recipe\ntype State uint8\nfunc (State) String() string { return `` }\ntype Base struct { Name string; lower int }\nfunc (*Base) Close() error { return nil }",
		"m/driver":             "package driver\ntype Entry struct { ID string }\nfunc (Entry) Held() bool { return false }",
		"m": `package m
import ("example.org/other/v2"; "m/recipe"; "m/driver")
const Size = 1 << 40
const Up State = 2
const lower = 1
var ErrLost, errLower error
type State = recipe.State
type Token int64
func (Token) String() string { return "" }
func (*Token) Unmarshal(text []byte) (err error) { return nil }
type Options struct { Name, Path string; Client *other.Client; OnState func(was, is State); hidden int }
type Store struct { recipe.Base; driver.Entry; *other.Client; inner }
type inner struct { Seen bool; at int }
func (inner) Age() int { return 0 }
func (s *Store) Lock(path string, more ...int) (token Token, err error) { return 0, nil }
func (s *Store) lock() {}
type Injector interface { Inject(of string) (err error); Close() }
type Closed interface { A(); b() }
type Number interface { ~int | ~int64 }
type List[L any] struct { All []L }
func (l *List[L]) Add(one L) {}
func Each[K comparable, V any](of map[K]V, do func(key K, value V) bool) {}
func New(options *Options) (store *Store, err error) { return nil, nil }
func Use(by interface{ Do(text string) error }) {}
func unseen() {}
`,
	}.Import("m")
	require.NoError(t, err)
	require.Equal(t, strings.Split(strings.TrimSpace(`
const Size = 1099511627776
const Up State = 2
func Each[K comparable, V any](map[K]V, func(K, V) bool)
func New(*Options) (*Store, error)
func Use(interface{Do(string) error})
method (*List) Add(L)
method (*Store) Close() error
method (*Store) Lock(string, ...int) (Token, error)
method (*Token) Unmarshal([]byte) error
method (State) String() string
method (Store) Age() int
method (Token) String() string
type Closed interface, A()
type Closed interface, unexported methods
type Injector interface { Close, Inject }
type Injector interface, Close()
type Injector interface, Inject(string) error
type List struct, All []L
type List[L any] struct
type Number interface{~int | ~int64}
type Options struct
type Options struct, Client *example.org/other/v2.Client
type Options struct, Name string
type Options struct, OnState func(State, State)
type Options struct, Path string
type State = recipe.State
type State uint8
type Store struct
type Store struct, Name string
type Store struct, Seen bool
type Store struct, embedded *example.org/other/v2.Client
type Store struct, embedded driver.Entry
type Store struct, embedded recipe.Base
type Token int64
var ErrLost error
`), "\n"), surface(pkg, "m"))
}

func TestNamesOfLines(t *testing.T) {
	f := files{packages: map[string][]string{"farsync": {"type Store struct"}, "redis": {"type Options struct"}, "driver-drivertest": nil}}
	for _, c := range []struct{ name, line, want string }{
		{"farsync", "func NewMutex(*Store, string) *Mutex", "NewMutex"},
		{"farsync", "func Each[K comparable](map[K]int)", "Each"},
		{"farsync", "method (*Store) Close() error", "Store.Close"},
		{"farsync", "method (*Mutex) Ask(context.Context) error", "Mutex.Ask Mutex"}, // the type is gone
		{"farsync", "type Store struct", "Store"},
		{"farsync", "const Up State = 2", "Up"},
		{"redis", "type Options struct, Fresh bool", "redis.Options.Fresh"},
		{"redis", "type Options struct, embedded farsync.Options", "redis.Options.Options"},
		{"redis", "type Options struct, embedded *example.org/other/v2.Client", "redis.Options.Client"},
		{"redis", "type Injector interface, Inject(string) error", "redis.Injector.Inject redis.Injector"},
		{"redis", "type Injector interface { Close, Inject }", "redis.Injector"},
		{"redis", "type List[L any] struct", "redis.List"},
		{"storetest", "func NewMem() *Mem", "storetest.NewMem storetest"}, // the package is gone
		{"driver-drivertest", "func Run(*testing.T)", "drivertest.Run drivertest"},
	} {
		require.Equal(t, strings.Fields(c.want), accepted(c.name, c.line, f), c.line)
	}
	require.True(t, speaksOf("- **`Mutex.TryDo` returns**", "Mutex.TryDo"))
	require.True(t, speaksOf("`farsync.Open`", "Open"))
	require.False(t, speaksOf("`Mutex.TryDone`", "Mutex.TryDo"))
	require.False(t, speaksOf("`RWMutex.TryDo`", "Mutex.TryDo"))
	require.Equal(t, "[Unreleased]\n- a", section("# Changelog\n\n## [Unreleased]\n- a\n## [0.1.0]\n- b\n"))
	require.Empty(t, section("nothing"))
}

// newTree returns an empty repository, and what writes and reads its files.
func newTree(t *testing.T) (repository tree, set func(name, text string), get func(name string) string) {
	repository = tree{root: t.TempDir(), module: "example.com/m", modules: map[string]bool{".": true, "own": true, "tools": false}}
	set = func(name, text string) {
		path := repository.path(name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	get = func(name string) string {
		text, err := os.ReadFile(repository.path(name))
		require.NoError(t, err)
		return string(text)
	}
	return repository, set, get
}

const check, write = false, true

func TestPackagesThatProgramsImport(t *testing.T) {
	repository, set, get := newTree(t)
	set("CHANGELOG.md", "")
	set("go.mod", "module example.com/m\n\ngo 1.26\n")
	set("m.go", "package m\n\nfunc Open(path string) int { return 0 }\n")
	set("m_windows.go", "package m\n\nfunc Windows() {}\n")
	set("internal/hidden/h.go", "package hidden\n\nfunc Hidden() {}\n")
	set("cmd/tool/main.go", "package main\n\nfunc main() {}\n")
	set("own/go.mod", "module example.com/m/own\n\ngo 1.26\n")
	set("own/deep/d.go", "package deep\n\nfunc Dig() {}\n")
	set("tools/go.mod", "module example.com/m/tools\n\ngo 1.26\n")
	require.NoError(t, repository.run(write))
	require.Equal(t, "func Open(string) int\n", get("api/m.txt"))
	require.Equal(t, "func Dig()\n", get("api/own-deep.txt"))
	written, err := filepath.Glob(repository.path("api/*"))
	require.NoError(t, err)
	require.Len(t, written, 2)

	// A module that nobody lists would be under no check.
	set("more/go.mod", "module example.com/m/more\n\ngo 1.26\n")
	require.ErrorContains(t, repository.run(check), "more is a module that internal/api does not know")
}

// TestAChangeHasToBeNamed walks a repository through what its makers do.
func TestAChangeHasToBeNamed(t *testing.T) {
	repository, set, get := newTree(t)
	set("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n\n- `m.Open` is new.\n")
	const first, second, more = "func Open(string) int", "func Open(string) error", "func Close()"
	m := func(lines ...string) map[string][]string { return map[string][]string{"m": lines} }

	require.EqualError(t, repository.settle(m(first), check), "the folder api is not what the code says; make api renews it:\n+api/m.txt: "+first)
	require.NoError(t, repository.settle(m(first), write))
	require.NoError(t, repository.settle(m(first), check))
	require.NoFileExists(t, repository.path("api/removed.txt"))

	// A new symbol needs its line, and no name in the changelog.
	require.ErrorContains(t, repository.settle(m(more, first), check), "\n+api/m.txt: "+more)
	require.NoError(t, repository.settle(m(more, first), write))
	require.NoError(t, repository.settle(m(more, first), check))

	// A change has to be named where a user looks for it: not below a version that is out.
	missing := "does not name them:\nm.Open (m: " + first + ")"
	require.ErrorContains(t, repository.settle(m(more, second), check), "-api/m.txt: "+first+"\n+api/m.txt: "+second)
	require.ErrorContains(t, repository.settle(m(more, second), write), missing)
	require.ErrorContains(t, repository.settle(m(more, second), check), missing)
	require.Contains(t, get("api/removed.txt"), "\nm: "+first+"\n")
	named := "# Changelog\n\n## [Unreleased]\n\n- `m.Open` returns an error.\n"
	set("CHANGELOG.md", named)
	require.NoError(t, repository.settle(m(more, second), check))

	// A line that was taken out by hand is missed.
	set("api/m.txt", second+"\n")
	require.ErrorContains(t, repository.settle(m(more, second), check), "+api/m.txt: "+more)

	// Two sides of a merge are no list of lines. From either side alone, the lines that the other side took out are
	// seen to be gone.
	set("api/m.txt", "<<<<<<< ours\n"+first+"\n=======\n"+second+"\n>>>>>>> theirs\n")
	require.ErrorContains(t, repository.settle(m(second), write), "two sides of a merge")
	set("api/m.txt", more+"\n"+first+"\n")
	set("CHANGELOG.md", named+"- `m.Close` is gone.\n")
	require.NoError(t, repository.settle(m(second), write))
	require.Contains(t, get("api/removed.txt"), "\nm: "+more+"\nm: "+first+"\n")

	// A line that has come back is not gone.
	require.NoError(t, repository.settle(m(more, first), write))
	require.NotContains(t, get("api/removed.txt"), "\nm: "+more)
	require.Contains(t, get("api/removed.txt"), "\nm: "+second+"\n")

	// A package that goes away is named itself, or each of its symbols.
	is := map[string][]string{"m": {more, first}, "deep": {"func Dig()"}}
	require.NoError(t, repository.settle(is, write))
	is = map[string][]string{"m": {more, first}, "other": {"func Dig()"}}
	require.ErrorContains(t, repository.settle(is, write), "deep.Dig (deep: func Dig())")
	require.NoFileExists(t, repository.path("api/deep.txt"))
	set("CHANGELOG.md", named+"- Package `deep` is `other`.\n")
	require.NoError(t, repository.settle(is, check))

	// A release begins anew.
	require.NoError(t, os.Remove(repository.path("api/removed.txt")))
	set("CHANGELOG.md", "# Changelog\n\n## [0.2.0]\n")
	require.NoError(t, repository.settle(is, check))
}

func TestTheListOfModulesIsWhole(t *testing.T) {
	require.NoError(t, tree{root: "../..", module: module, modules: modules}.everyModuleIsKnown())
	for path, hides := range map[string]bool{
		"": false, "/redis": false, "/otelfarsync": false, "/driver/drivertest": false,
		"/recipe": true, "/internal/census": true, "/cmd/farsync/internal/job": true, "/examples/internal/program": true,
	} {
		require.Equal(t, hides, module.hides(string(module)+path), path)
	}
	require.False(t, module.hides("io/internal/x"))
}

// TestChangelogNamesWhatIsThere: a symbol of ours that CHANGELOG.md names is in the folder api. Only the column of what was before names symbols that
// are gone, and these have not come back.
func TestChangelogNamesWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	lists, err := filepath.Glob("../../api/*.txt")
	require.NoError(t, err)
	packages, there, last := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, list := range lists {
		name := strings.TrimSuffix(filepath.Base(list), ".txt")
		if name == "removed" {
			continue
		}
		text, err := os.ReadFile(list)
		require.NoError(t, err)
		pkg := name[strings.LastIndexByte(name, '-')+1:]
		packages[pkg] = true
		for line := range strings.Lines(string(text)) {
			symbol, member := symbolOf(strings.TrimSpace(line))
			last[symbol] = true
			if member != "" {
				last[member] = true
				symbol += "." + member
			}
			there[pkg+"."+symbol] = true
		}
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	form := regexp.MustCompile(`^\*?(?:([a-z]+)\.)?([A-Z]\w*[a-z]\w*)(\.[A-Z]\w*)?$`)
	is := func(name string) (ours, found bool) {
		m := form.FindStringSubmatch(name)
		switch {
		case m == nil, m[1] != "" && !packages[m[1]]:
			return false, false // a command, or a symbol of another package
		case m[1] == "" && m[3] == "":
			return true, last[m[2]] // Resize speaks of Semaphore.Resize
		}
		return true, there[cmp.Or(m[1], "farsync")+"."+m[2]+m[3]]
	}
	named, gone, table := 0, 0, false
	for line := range strings.Lines(string(page)) {
		table = strings.HasPrefix(line, "|") && (table || strings.HasPrefix(line, "| before | now |"))
		if table {
			cells := strings.Split(line, "|")
			if strings.Trim(quoted.ReplaceAllString(cells[1], ""), ", ") == "" { // names alone
				for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
					if ours, found := is(m[1]); ours {
						gone++
						require.False(t, found, "%s stands in the column of what was before, and is there", m[1])
					}
				}
			}
			line = cells[2]
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if ours, found := is(m[1]); ours {
				named++
				require.True(t, found, "CHANGELOG.md names %s, which is not there", m[1])
			}
		}
	}
	require.Greater(t, named, 50, "the test would not notice that it looks at nothing")
	require.Greater(t, gone, 15, "the test would not notice that it looks at nothing")
}
