//go:build unix

package docstest_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		if filepath.Dir(name) != "docs/inside" {
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
