//go:build unix

package docstest_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rejected is the page of the ways that were measured or weighed, and are not taken.
const rejected = "docs/inside/rejected.md"

// TestDecisionsAreOnePage: a decision has its context and choice, and is short. The index has it once, in its order, and
// says where its argument is found: in a page about the state of today, or in a file with code. The page of rejected ways
// names the decision that leads there.
func TestDecisionsAreOnePage(t *testing.T) {
	const words = 550
	_, index, found := strings.Cut(document(t, filepath.Join(decisions, "README.md")), "\n|---|---|---|\n")
	require.True(t, found)
	rows := strings.Split(strings.TrimSpace(index), "\n")
	ways := document(t, rejected)
	for _, name := range documents(t) {
		base := filepath.Base(name)
		if filepath.Dir(name) != decisions || base == "README.md" || strings.HasPrefix(base, "0000-") {
			continue
		}
		text := document(t, name)
		require.Less(t, len(strings.Fields(text)), words, "words of %s", name)
		title, _, _ := strings.Cut(text, "\n")
		require.True(t, strings.HasPrefix(title, "# "+base[:4]+": "), name)
		require.Contains(t, text, "\n\n## Context\n", name)
		require.Contains(t, text, "\n\n## Choice\n", name)

		require.NotEmpty(t, rows, "%s is not in the index", name)
		cells := strings.Split(strings.Trim(rows[0], "| "), " | ")
		rows = rows[1:]
		require.Len(t, cells, 3, name)
		require.Equal(t, "["+base[:4]+"]("+base+")", cells[0], "the next row of the index")
		require.True(t, strings.HasPrefix(cells[1], strings.TrimPrefix(title, "# "+base[:4]+": ")+"."), name)
		where := linked.FindAllStringSubmatch(cells[2], -1)
		require.NotEmpty(t, where, "the index does not say where the argument of %s is found", name)
		for _, link := range where {
			require.True(t, strings.HasPrefix(link[1], "../"), "the index leads from %s to another decision", name)
		}
		if strings.Contains(text, "](../inside/rejected.md#") {
			require.Contains(t, ways, "](../adr/"+base+")", "%s leads to %s, which does not name it", name, rejected)
		}
	}
	require.Empty(t, rows, "the index names what is not there")
}

// TestDecisionsLeadInsideAndBack: a decision keeps the choice, and a page of docs/inside the current state. So each
// decision that a page names says at its head that the state is there, and each decision that says so is named by the
// page, unless another has replaced it.
func TestDecisionsLeadInsideAndBack(t *testing.T) {
	state := regexp.MustCompile(`(?m)\AStatus: (.*)\n\nThe current state: (.*)$`)
	leads, found := map[string]bool{}, 0
	for _, name := range documents(t) {
		if filepath.Dir(name) != decisions {
			continue
		}
		title, text, _ := strings.Cut(document(t, name), "\n\n")
		head := state.FindStringSubmatch(text)
		about := regexp.MustCompile(`(?i)\bon (etcd|zookeeper|redis|postgresql|mysql|sqlite)\b`).FindStringSubmatch(title)
		require.False(t, about != nil && head == nil, "%s is about one store, and does not say where its state is", name)
		if head == nil {
			continue
		}
		found++
		if about != nil && !strings.HasPrefix(head[1], "replaced by ") {
			require.Contains(t, head[2], "(../inside/"+strings.ToLower(about[1])+".md)", name)
		}
		for _, link := range linked.FindAllStringSubmatch(head[2], -1) {
			leads[name+" "+filepath.Join(decisions, link[1])] = true
			names := map[string]bool{}
			for _, back := range linked.FindAllStringSubmatch(document(t, filepath.Join(decisions, link[1])), -1) {
				names[back[1]] = true
			}
			if !strings.HasPrefix(head[1], "replaced by ") {
				require.True(t, names["../adr/"+filepath.Base(name)], "%s leads to %s, which does not name it", name, link[1])
			}
		}
	}
	require.Greater(t, found, 40, "the test would not notice that it looks at nothing")

	for _, name := range documents(t) {
		if filepath.Dir(name) != "docs/inside" || name == rejected {
			continue
		}
		_, choices, found := strings.Cut(document(t, name), "\n## Where the choice was made\n")
		require.True(t, found, name)
		for _, link := range linked.FindAllStringSubmatch(choices, -1) {
			if strings.HasPrefix(link[1], "../adr/") {
				to := filepath.Join(filepath.Dir(name), link[1])
				require.True(t, leads[to+" "+name], "%s names %s, which does not lead there", name, to)
			}
		}
	}
}
