package machine_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/machine"
)

func TestClockCountsMicroseconds(t *testing.T) {
	began, first := time.Now(), machine.Clock()
	machine.Nap(2 * time.Millisecond)
	counted, most := machine.Clock()-first, time.Since(began)
	require.GreaterOrEqual(t, counted, int64(2000))
	require.LessOrEqual(t, counted, most.Microseconds()+1)
	boot := machine.Boot()
	require.NotEmpty(t, boot)
	require.Equal(t, boot, machine.Boot())
}

func TestCheckFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, machine.CheckFile(file), "it can be made")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, machine.CheckFile(file))
	for given, says := range map[string]string{
		"":               "no file is named",
		"a\x00b":         "NUL",
		`\\server\share`: "a network path",
		dir:              "a directory",
		file + "-new/":   "a directory",
	} {
		require.ErrorContains(t, machine.CheckFile(given), says, "%q", given)
	}
	if runtime.GOOS != "windows" {
		require.ErrorContains(t, machine.CheckFile(os.DevNull), "a device")
	}
}

func TestCheckLocal(t *testing.T) {
	require.NoError(t, machine.CheckLocal(t.TempDir()))
	if runtime.GOOS == "linux" { // where file systems are known
		require.ErrorContains(t, machine.CheckLocal("/proc"), "not known to be local")
		require.ErrorIs(t, machine.CheckLocal(filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
	}
}
