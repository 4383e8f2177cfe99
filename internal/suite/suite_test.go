package suite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsNotRunIsNoted, a line for each test, with its folder.
func TestWhatIsNotRunIsNoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	t.Setenv(notRunVariable, file)
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { require.True(t, t.Skipped()) })
			NotHere(t, "what is\n\tnot here")
			require.Fail(t, "it was run")
		})
	}
	folder, err := os.Getwd()
	require.NoError(t, err)
	noted, err := os.ReadFile(file)
	require.NoError(t, err)
	line := filepath.ToSlash(folder) + "\tTestWhatIsNotRunIsNoted/"
	require.Equal(t, line+"one\twhat is not here\n"+line+"two\twhat is not here\n", string(noted))
}
