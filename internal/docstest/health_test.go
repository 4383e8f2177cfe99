//go:build unix

package docstest_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func healthProgram(t *testing.T) string {
	t.Helper()
	const first = "// A job is work under a lease. Its check of liveness fails when the work goes on for too long after the lease."
	checks := blocks(t, "docs/HEALTH.md", "go", first)
	require.Len(t, checks, 1)
	return `package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func main() {
	service := farsynctest.NewMem()
	store := service.Open(nil)
	work := new(job)
	fmt.Println("a candidate:", work.alive(-1), ready(store))
	lease, err := farsync.NewMutex(store, "/leaders/reports").Lock(context.Background())
	if err != nil {
		panic(err)
	}
	work.begin(lease)
	fmt.Println("it works:", work.alive(-1), ready(store))
	service.Expire(store)
	<-lease.Done()
	fmt.Println("just lost:", work.alive(time.Hour), work.alive(time.Hour))
	fmt.Println("for too long:", errors.Is(work.alive(-1), farsync.ErrLost))
	work.begin(nil)
	fmt.Println("the work has returned:", work.alive(-1))
	if err := store.Close(); err != nil {
		panic(err)
	}
	fmt.Println("closed:", work.alive(-1), ready(store))
}

` + first + "\n" + checks[0] + "\n"
}

// TestHealthChecksOfThePage runs the checks of docs/HEALTH.md over a lease that is lost, work that goes on without it, and a Store that is closed.
func TestHealthChecksOfThePage(t *testing.T) {
	t.Parallel()
	program := programOf(t, "HEALTH")
	require.Equal(t, `a candidate: <nil> <nil>
it works: <nil> <nil>
just lost: <nil> <nil>
for too long: true
the work has returned: <nil>
closed: <nil> the lock service is lost`, run(t, exec.CommandContext(within(t, soon), program), ""))
}
