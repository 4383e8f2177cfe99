//go:build unix

package location

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinksOfASecretAreFollowed: Kubernetes mounts a Secret as links by way of ..data, which leads to another folder when
// the Secret has changed.
func TestLinksOfASecretAreFollowed(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "password"), filepath.Join(dir, "..data")
	put := func(version, password string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, version, "password"), []byte(password), 0o600))
		require.NoError(t, os.Symlink(version, data+"_tmp"))
		require.NoError(t, os.Rename(data+"_tmp", data))
	}
	put("..1", "first")
	require.NoError(t, os.Symlink(filepath.Join("..data", "password"), file))
	l, err := Parse("redis://app@h?plaintext=1&password-file=" + file)
	require.NoError(t, err)
	from, err := l.credentials(nil)
	require.NoError(t, err)
	password, _ := from.now()
	require.Equal(t, "first", password)
	put("..2", "second")
	password, _ = from.now()
	require.Equal(t, "second", password)
}

// TestPipeInThePlaceOfAFileHoldsNothingUp: neither a start nor a connection waits for a writer.
func TestPipeInThePlaceOfAFileHoldsNothingUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
	l, err := Parse("redis://app@h?plaintext=1&password-file=" + file)
	require.NoError(t, err)
	var log bytes.Buffer
	from, err := l.credentials(slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	password, _ := from.now()
	require.Equal(t, "secret", password)
	require.Contains(t, log.String(), "is a device or a pipe")
	require.ErrorIs(t, l.CheckFiles(), ErrConfig)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("/dev/stdin", file))
	if is, err := os.Stat(file); err == nil && !is.Mode().IsRegular() { // the tests may be given a file
		require.ErrorIs(t, l.CheckFiles(), ErrConfig)
	}
}
