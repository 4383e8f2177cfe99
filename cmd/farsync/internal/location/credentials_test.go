package location

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCredentialsAreReadAnew: what the files say counts at once, and a file that cannot be read is as it was.
func TestCredentialsAreReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("first\n")
	l, err := Parse("redis://app@h?plaintext=1&password-file=" + file)
	require.NoError(t, err)
	var log bytes.Buffer
	from, err := l.credentials(slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	says := func(want string) {
		t.Helper()
		password, config := from.now()
		require.Equal(t, want, password)
		require.Nil(t, config)
	}
	says("first")
	write("second")
	says("second")
	require.NoError(t, os.Remove(file))
	require.Empty(t, log.String())
	says("second")
	require.Contains(t, log.String(), "level=WARN")
	require.NotContains(t, log.String(), "second")
	write("third")
	says("third")
	for _, empty := range []string{"", "\n", "\r\n"} { // a file that was made, and is not yet written
		write(empty)
		log.Reset()
		says("third")
		require.Contains(t, log.String(), "is empty")
	}
	require.NoError(t, os.Remove(file))
	_, err = l.credentials(nil)
	require.ErrorIs(t, err, ErrConfig)
}
