package farsync_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/storetest"
)

func TestSurveyOfAPrefixThatIsNoPath(t *testing.T) {
	store := storetest.NewMem().Open(nil)
	lease := lock(t, farsync.NewMutex(store, "/jobs/a"))
	surveyed := func(prefix string) (paths []string, err error) {
		for lock, err := range farsync.Survey(t.Context(), store, prefix) {
			if err != nil {
				return paths, err
			}
			paths = append(paths, lock.Path)
		}
		return paths, nil
	}
	for _, prefix := range []string{"", "/", "/jobs", "/jobs/", "/jobs/a"} {
		paths, err := surveyed(prefix)
		require.NoError(t, err, prefix)
		require.Equal(t, []string{"/jobs/a"}, paths, prefix)
	}
	for _, prefix := range []string{"jobs", "//", "/jobs//", "/ü", "/jobs/*"} {
		_, err := surveyed(prefix)
		require.ErrorIs(t, err, farsync.ErrName, prefix)
	}
	_, err := surveyed("jobs")
	require.EqualError(t, err, `farsync: survey: bad name "jobs": no leading slash`)
	require.NoError(t, lease.Release())
	require.NoError(t, store.Close())
	_, err = surveyed("")
	require.ErrorIs(t, err, farsync.ErrClosed)
	require.ErrorContains(t, err, "farsync: survey /: ")
}
