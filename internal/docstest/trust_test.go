package docstest_test

import (
	"os"
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
