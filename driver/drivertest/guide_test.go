package drivertest

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGuideHasEveryCaseOnce: docs/WRITING-A-STORE.md names each case in the command of one step.
func TestGuideHasEveryCaseOnce(t *testing.T) {
	guide, err := os.ReadFile("../../docs/WRITING-A-STORE.md")
	require.NoError(t, err)
	for _, c := range conformances() {
		found := regexp.MustCompile(`[(|]`+c.name+`[|)]`).FindAll(guide, -1)
		assert.Len(t, found, 1, "%s in the commands of the guide", c.name)
	}
}
