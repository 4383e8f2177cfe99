package recipe

import (
	"testing"

	"github.com/farsync/farsync/internal/model"
)

func TestModelOfALease(t *testing.T) {
	lease := model.Lease{Deadline: provedUntil, Ticks: 10, Lost: 1}
	holds(t, "a session for 10 s, its TTL 4 s; 1 renewal lost", model.Explore(&lease, 0))
	for _, mistake := range []struct {
		name string
		of   model.LeaseMistake
	}{
		{"the deadline counts from when the answer arrived", model.FromReceipt},
		{"the deadline counts with the TTL that was asked for, not the TTL that was granted", model.AskedTTL},
		{"no deadline: the session is over when the service says so", model.UntilTold},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			lease.Mistake = mistake.of
			found(t, mistake.name, model.Explore(&lease, 0))
		})
	}
}
