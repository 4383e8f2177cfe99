//go:build unix

package docstest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A prose is a document without its blocks of code, in which neither a heading nor a link stands.
func prose(t testing.TB, name string) string {
	t.Helper()
	var kept strings.Builder
	for i, part := range strings.Split("\n"+document(t, name), "\n```") {
		if i%2 == 1 {
			continue
		}
		_, after, _ := strings.Cut(part, "\n") // the rest of the line that ends a block
		kept.WriteString("\n" + after)
	}
	return kept.String()
}

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
	linked  = regexp.MustCompile(`\]\(([^()\s]+)\)`)
)

// anchors returns the names by which GitHub reaches the headings of a document.
func anchors(t testing.TB, name string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(prose(t, name), -1) {
		anchor := anchorOf(h[1])
		for n := 1; found[anchor]; n++ { // a heading that stands twice
			anchor = fmt.Sprintf("%s-%d", strings.TrimSuffix(anchor, fmt.Sprintf("-%d", n-1)), n)
		}
		found[anchor] = true
	}
	return found
}

// anchorOf returns the name by which GitHub reaches a heading that stands once.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}

// decisions is the folder of the decisions. They are not kept up to date: they have the links, one page each, and a place in their index.
const decisions = "docs/adr"

// documents returns the names of all documents of the repository's root, of docs and of each folder below it, with the decisions.
func documents(t testing.TB) []string {
	t.Helper()
	var names []string
	add := func(path string) { names = append(names, strings.TrimPrefix(filepath.ToSlash(path), "../../")) }
	paths, err := filepath.Glob("../../*.md")
	require.NoError(t, err)
	for _, path := range paths {
		add(path)
	}
	require.NoError(t, filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			add(path)
		}
		return err
	}))
	require.Greater(t, len(names), 50, "the test would not notice that it looks at nothing")
	require.Contains(t, names, "docs/start/redis.md", "folders below docs are not looked at")
	return names
}

// TestLinksLeadSomewhere: a link of a document to a file or a heading of the repository finds it.
func TestLinksLeadSomewhere(t *testing.T) {
	headings := map[string]map[string]bool{}
	for _, name := range documents(t) {
		for _, link := range linked.FindAllStringSubmatch(prose(t, name), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(link[1], "#")
			to := name
			if file != "" {
				to = filepath.Join(filepath.Dir(name), file)
			}
			_, err := os.Stat(filepath.Join("..", "..", to))
			require.NoError(t, err, "%s links to %s", name, link[1])
			if anchor == "" {
				continue
			}
			if headings[to] == nil {
				headings[to] = anchors(t, to)
			}
			require.True(t, headings[to][anchor], "%s links to %s, which has no such heading", name, link[1])
		}
	}
}

// TestIndexLeadsToEveryDocument: who begins at README finds each document in two steps, by way of the index. README is short, for it is
// read by people who compare libraries.
func TestIndexLeadsToEveryDocument(t *testing.T) {
	const words = 900
	readme := prose(t, "README.md")
	require.Contains(t, readme, "](docs/README.md)")
	require.Less(t, len(strings.Fields(readme)), words, "words of README.md outside of its code")
	led := map[string]bool{"README.md": true} // the index itself
	for _, link := range linked.FindAllStringSubmatch(prose(t, "docs/README.md"), -1) {
		file, _, _ := strings.Cut(link[1], "#")
		led[file] = true
	}
	for _, name := range documents(t) {
		if below, ok := strings.CutPrefix(name, "docs/"); ok && filepath.Dir(name) != decisions {
			require.True(t, led[below], "docs/README.md does not link to %s", name)
		}
	}
}

// TestPromiseNamesEveryPackage: a public package has a list of its symbols in the folder api, and a place in the table
// of the packages that are under the promise.
func TestPromiseNamesEveryPackage(t *testing.T) {
	_, table, found := strings.Cut(prose(t, "docs/WHAT-MAY-CHANGE.md"), "\n| under the promise |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	lists, err := filepath.Glob("../../api/*.txt")
	require.NoError(t, err)
	require.Greater(t, len(lists), 10, "the test would not notice that it looks at nothing")
	for _, list := range lists {
		if name := filepath.Base(list); name != "removed.txt" {
			require.Contains(t, table, "](../api/"+name+")", "docs/WHAT-MAY-CHANGE.md does not name the package of %s", list)
		}
	}
}

// TestVersionsAreTheSameOnEveryPage: README, the table of docs/STORES.md, the page of a store and its package name one lowest version of
// its service, and README, the table and the page one version that the tests run on. For etcd these are the versions that the module has.
func TestVersionsAreTheSameOnEveryPage(t *testing.T) {
	_, table, found := strings.Cut(prose(t, "docs/STORES.md"), "\n## Versions\n")
	require.True(t, found)
	lowest, tested := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| ([^|]*) \| ([^|]*)\|`).FindAllStringSubmatch(table, -1) {
		lowest[row[1]], tested[row[1]] = row[2], strings.TrimSpace(row[3])
	}
	pages := map[string]struct {
		services []string
		doc      string
	}{
		"etcd":        {[]string{"etcd"}, ""},
		"zookeeper":   {[]string{"ZooKeeper"}, "zk/doc.go"},
		"redis":       {[]string{"Redis"}, "redis/doc.go"},
		"postgresql":  {[]string{"PostgreSQL"}, "postgres/doc.go"},
		"mysql":       {[]string{"MySQL", "MariaDB"}, "mysql/doc.go"},
		"one-machine": {[]string{"SQLite"}, ""},
	}
	rows := regexp.MustCompile(`(?m)^\| \[[^]]+\]\(docs/start/([\w-]+)\.md\) \| ([^|]*) \| ([^|]*)\|`).
		FindAllStringSubmatch(prose(t, "README.md"), -1)
	require.Len(t, rows, len(pages))
	for _, row := range rows {
		page, known := pages[row[1]]
		require.True(t, known, row[1])
		var low, run []string
		for _, service := range page.services {
			require.Contains(t, lowest, service, "docs/STORES.md has no row")
			low, run = append(low, lowest[service]), append(run, tested[service])
			if service == "SQLite" {
				continue
			}
			start, version := prose(t, "docs/start/"+row[1]+".md"), strings.TrimPrefix(lowest[service], "client ")
			require.Contains(t, start, " "+version+" or later", row[1])
			require.Regexp(t, `tests run on [^\n]*`+regexp.QuoteMeta(tested[service])+`\.?\s`, start, row[1])
			if page.doc != "" {
				require.Regexp(t, `(?:version|`+service+`) `+regexp.QuoteMeta(version)+` or (?:later|newer)`, document(t, page.doc))
			}
		}
		require.Equal(t, strings.Join(low, ", "), row[2], "the lowest version in README.md")
		require.Equal(t, strings.Join(run, ", "), strings.TrimSpace(row[3]), "the version that tests run on in README.md")
	}
	module := document(t, "go.mod")
	require.Contains(t, module, "\tgo.etcd.io/etcd/server/v3 v"+tested["etcd"]+"\n")
	require.Contains(t, module, "\tgo.etcd.io/etcd/client/v3 v"+strings.TrimPrefix(lowest["etcd"], "client ")+"\n")
}
