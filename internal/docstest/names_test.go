package docstest_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read returns the text of all files of the repository whose names match.
func read(t testing.TB, match func(path string) bool) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !match(path) {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}))
	return all.String()
}

func TestTestsThatDocumentsNameAreThere(t *testing.T) {
	t.Parallel()
	text := read(t, func(path string) bool { return filepath.Base(path) == "README.md" })
	for _, name := range documents(t) {
		if strings.HasPrefix(name, "docs/") && filepath.Dir(name) != decisions {
			text += document(t, name)
		}
	}
	code := read(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	there := map[string]bool{}
	for _, test := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(code, -1) {
		there[test[1]] = true
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(text, -1)
	require.Greater(t, len(named), 20, "the test would not notice that it looks at nothing")
	for _, name := range named {
		require.True(t, there[name[1]], "a document names %s, which is not there", name[1])
	}
}

// TestEveryMarkNamesATest: what a store promises, and what it does not, is followed by a test that shows it. The marks
// of a table whose rows are numbered are shown in the list below the table, by the item of the row and the store.
func TestEveryMarkNamesATest(t *testing.T) {
	page := document(t, "docs/WHICH-STORE.md")
	_, first, found := strings.Cut(page, "\n## What holds\n")
	require.True(t, found)
	first, _, found = strings.Cut(first, "\n## ")
	require.True(t, found)
	shown := itemsOfStores(first)
	require.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"}, numbers(first))
	mark := regexp.MustCompile("[✓✗][^✓✗]*")
	marks := 0
	var stores []string
	for line := range strings.Lines(first) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		switch {
		case !strings.HasPrefix(line, "| "):
		case stores == nil:
			stores = cells
		default:
			for column, cell := range cells {
				for _, m := range mark.FindAllString(cell, -1) {
					marks++
					row, store := strings.TrimSpace(cells[0]), strings.TrimSpace(stores[column])
					require.Contains(t, shown[row+" "+store], m[:len("✓")], "the item of row %s for %s", row, store)
				}
			}
		}
	}
	require.Greater(t, marks, 50, "the test would not notice that it looks at nothing")
	texts := slices.Collect(maps.Values(shown))
	for line := range strings.Lines(strings.Replace(page, first, "", 1)) {
		if strings.HasPrefix(line, "|") {
			texts = append(texts, strings.Split(line, "|")...)
		}
	}
	for _, text := range texts {
		for _, m := range mark.FindAllString(text, -1) {
			marks++
			require.Regexp(t, "`Test\\w+`", m, "in %q", strings.TrimSpace(text))
		}
	}
	require.Greater(t, marks, 110, "the test would not notice that it looks at nothing")
}

// numbers returns the numbers of a list's items.
func numbers(text string) (list []string) {
	for _, item := range regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(text, -1) {
		list = append(list, item[1])
	}
	return list
}

// itemsOfStores returns the items of a list by the number of the item above and the store: "3 etcd". An item may be for
// more than one store.
func itemsOfStores(text string) map[string]string {
	items := map[string]string{}
	number, stores := "", []string(nil)
	for line := range strings.Lines(text) {
		if above := regexp.MustCompile(`^(\d+)\. `).FindStringSubmatch(line); above != nil {
			number, stores = above[1], nil
		} else if item := regexp.MustCompile(`^ +- ([A-Za-z, ]+): `).FindStringSubmatch(line); item != nil {
			stores = strings.Split(item[1], ", ")
		} else if !strings.HasPrefix(line, "  ") {
			stores = nil
		}
		for _, store := range stores {
			items[number+" "+store] += line
		}
	}
	return items
}

// TestEveryRowOfAFailoverNamesATest, or says that there is none, in the item of its number below the table. For how long
// two may hold is said in this one place: the pages that lead to it say no time beside the link.
func TestEveryRowOfAFailoverNamesATest(t *testing.T) {
	_, text, found := strings.Cut(document(t, "docs/WHICH-STORE.md"), "\n## After a failover that was not synchronous\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n### ")
	require.True(t, found)
	stores := map[string]bool{}
	var rows []string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !regexp.MustCompile(`^\| \d`).MatchString(line) {
			continue
		}
		rows = append(rows, cells[0])
		for store := range strings.SplitSeq(cells[1], ", ") {
			stores[store] = true
		}
		_, item, found := strings.Cut(text, "\n"+cells[0]+". ")
		require.True(t, found, "no item of row %s", cells[0])
		item, _, _ = strings.Cut(item, "\n"+strconv.Itoa(len(rows)+1)+". ")
		require.Regexp(t, "`Test\\w+`|Reasoned, no test|the tests of that table", item, "in the item of %s: %s", cells[1], cells[2])
	}
	require.Equal(t, numbers(text), rows)
	for _, store := range []string{"etcd", "ZooKeeper", "Redis", "PostgreSQL", "MySQL", "MariaDB", "SQLite", "a `QuorumMutex`"} {
		require.True(t, stores[store], "no row of %s", store)
	}
}

// TestEveryRowOfARightNamesATest: what a neighbour can do with a right, and what it cannot, is shown by a test.
func TestEveryRowOfARightNamesATest(t *testing.T) {
	_, text, found := strings.Cut(document(t, "docs/SECURITY.md"), "\n## What a neighbour with fewer rights can do\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n## ")
	require.True(t, found)
	rows := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| right |") || strings.HasPrefix(line, "| who |") {
			continue
		}
		rows++
		require.Regexp(t, "`Test\\w+`", line)
	}
	require.Greater(t, rows, 25, "the test would not notice that it looks at nothing")
}

// TestRunbookExplainsEveryMessage: what a Store logs, or a View of package live, is in the runbook, with its level, and nothing else is.
func TestRunbookExplainsEveryMessage(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../../docs/RUNBOOK.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(runbook), "\n## What the log says\n")
	require.True(t, found)
	explained := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\|").FindAllStringSubmatch(table, -1) {
		explained[strings.TrimSuffix(row[1], "…")] = row[2]
	}
	code := read(t, func(path string) bool {
		of := filepath.Base(filepath.Dir(path))
		return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			(of == "recipe" || of == "etcd" || of == "zk" || of == "redis" || of == "sqlite" || of == "postgres" ||
				of == "mysql" || of == "sqlstore" || of == "aside" || of == "live")
	})
	logged := regexp.MustCompile(`(?:\blog\.|slog\.Level)(Debug|Info|Warn|Error)(?:\(|, )"([^"]+)"`).FindAllStringSubmatch(code, -1)
	require.NotEmpty(t, logged)
	seen := map[string]bool{}
	for _, line := range logged {
		level, known := "", ""
		for message, of := range explained {
			if strings.HasPrefix(line[2], message) {
				level, known = of, message
			}
		}
		require.Equal(t, line[1], level, "the level of %q", line[2])
		seen[known] = true // more than once, where two places log the same
	}
	for message := range explained {
		require.Contains(t, seen, message, "no code logs this")
	}
}

// TestEveryCellOfTheComparisonShowsIt: what docs/COMPARISON.md says of a library is shown by a test of ours, by a
// document, or by a source or an issue elsewhere. A link to a source names a version: a branch goes on.
func TestEveryCellOfTheComparisonShowsIt(t *testing.T) {
	page := document(t, "docs/COMPARISON.md")
	cells := 0
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		heads := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|--") // a line of names of columns
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || heads {
			continue
		}
		columns := strings.Split(strings.Trim(line, "| "), " | ")
		for _, cell := range columns[1:] {
			cells++
			require.Regexp(t, "`Test\\w+`|\\]\\(|\\]\\[", cell, "in the row of %s", columns[0])
		}
	}
	require.Greater(t, cells, 100, "the test would not notice that it looks at nothing")

	used := map[string]bool{}
	for _, link := range regexp.MustCompile(`\]\[([\w-]+)\]`).FindAllStringSubmatch(page, -1) {
		used[link[1]] = true
	}
	for _, link := range regexp.MustCompile(`(?m)^\[([\w-]+)\]: (.*)$`).FindAllStringSubmatch(page, -1) {
		require.True(t, used[link[1]], "no cell uses the link %s", link[1])
		delete(used, link[1])
		require.Regexp(t, `^https://github\.com/[\w-]+/[\w-]+/((blob|tree)/([0-9a-f]{40}|(api/)?v\d+\.\d+\.\d+)|commit/[0-9a-f]{40}|(issues|pull)/\d+)`, link[2])
	}
	require.Empty(t, used, "links that lead nowhere")
}
