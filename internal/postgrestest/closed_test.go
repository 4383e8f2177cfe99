package postgrestest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestClosedServiceIsClosed: what comes after Close is not tried again.
func TestClosedServiceIsClosed(t *testing.T) {
	t.Parallel()
	service := newDatabase(t).twoOf(t)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	_, err = in.List(within(t, soon), "/closed", 1)
	require.NoError(t, err)
	require.NoError(t, service.Close())
	_, err = in.List(within(t, soon), "/closed", 1)
	require.Equal(t, driver.Closed, service.Outcome(err), err)
	_, err = service.Open(within(t, soon), time.Hour)
	require.Equal(t, driver.Closed, service.Outcome(err), err)
	in.Drop()
}
