package docstest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryClaimHasEvidence: each claim of docs/TRUST.md names a test or links to a report, and each command there is a target of the Makefile.
func TestEveryClaimHasEvidence(t *testing.T) {
	read, err := os.ReadFile("../../docs/TRUST.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(read), "\n## What is claimed\n")
	require.True(t, found)
	claims := regexp.MustCompile(`(?m)^\| (.*\*\*.*) \| (.*) \|$`).FindAllStringSubmatch(text, -1)
	require.Len(t, claims, 9)
	for _, claim := range claims {
		require.Regexp(t, "`(Test|Fuzz)\\w+`|\\]\\(", claim[2], claim[1])
	}
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	commands := regexp.MustCompile("(?m)^\\| `make (\\w+)").FindAllStringSubmatch(text, -1)
	require.Len(t, commands, 7)
	for _, command := range commands {
		require.Regexp(t, `(?m)^`+command[1]+`:`, string(makefile))
	}
}

// TestReportsBeginWithTheShortAnswer: a report is long. Before its first section it links to the short answer and to each of its sections, and has the commands
// that run it again.
func TestReportsBeginWithTheShortAnswer(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	reports, err := filepath.Glob("../../docs/reports/*.md")
	require.NoError(t, err)
	require.Len(t, reports, 4)
	for _, report := range reports {
		read, err := os.ReadFile(report)
		require.NoError(t, err)
		beginning, sections, found := strings.Cut(string(read), "\n## ")
		require.True(t, found, report)
		require.Less(t, strings.Count(beginning, "\n"), 45, "%s: lines before its first section", report)
		require.Contains(t, beginning, "](../TRUST.md)", report)
		for _, section := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch("## "+sections, -1) {
			require.Contains(t, beginning, "](#"+anchorOf(section[1])+")", "%s does not begin with a link to %s", report, section[1])
		}
		commands := regexp.MustCompile(`(?m)^make (\w+)`).FindAllStringSubmatch(beginning, -1)
		require.NotEmpty(t, commands, "%s does not begin with how to run it", report)
		for _, command := range commands {
			require.Regexp(t, `(?m)^`+command[1]+`:`, string(makefile), report)
		}
	}
}
