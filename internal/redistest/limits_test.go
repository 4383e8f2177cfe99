package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestMasterThatLivesOnKeepsItsHolder: without the option Replicas a master that was replaced, and does not know it, goes on
// renewing its holder, and another holds at the new one. What keeps the two apart is a token.
func TestMasterThatLivesOnKeepsItsHolder(t *testing.T) {
	suite.Long(t, suite.Redis, "promotes a replica, and waits for a TTL of 2 s")
	t.Parallel()
	master := embedtest.Redis(t)
	replica := replicaOf(t, master.Endpoint())
	section := locktest.NewSection(nil, 1)
	lease := lock(t, newStore(t, master.Endpoint(), fresh(fenceTTL)), "/split")
	defer section.Enter(lease, 1)()
	promote(t, replica)
	next := lock(t, newStore(t, replica.Endpoint(), fresh(fenceTTL)), "/split")
	section.Visit(t.Context(), next, 1)
	require.NoError(t, lease.Err())
	require.Len(t, section.Overlaps(), 1)
	require.Greater(t, next.Token(), lease.Token())
}
