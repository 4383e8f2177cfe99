package farsync_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func ExampleElection_Campaign() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	election := farsync.NewElection(here, "/elections/scheduler")
	lease, err := election.Campaign(ctx, "10.0.0.1:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	leader, err := farsync.NewElection(there, "/elections/scheduler").Leader(ctx)
	fmt.Println(leader.Value, err)

	fmt.Println("resigned:", lease.Release())
	_, err = election.Leader(ctx)
	fmt.Println(errors.Is(err, farsync.ErrNoLeader))
	// Output:
	// 10.0.0.1:8080 <nil>
	// resigned: <nil>
	// true
}

// Lead runs a function for as long as this process leads. The lease is there to proclaim with.
func ExampleElection_Lead() {
	service := farsynctest.NewMem()
	store := service.Open(nil)
	defer store.Close()

	terms := 0
	election := farsync.NewElection(store, "/elections/scheduler")
	err := election.Lead(context.Background(), "starting", func(ctx context.Context, lease *farsync.Lease) error {
		if err := election.Proclaim(ctx, lease, "ready at 10.0.0.1:8080"); err != nil {
			return err
		}
		terms++
		if terms == 1 {
			service.Expire(store) // the process was cut off for too long
			<-ctx.Done()
			fmt.Println("lost:", errors.Is(context.Cause(ctx), farsync.ErrLost))
			return nil
		}
		fmt.Println("leads again")
		return nil
	})
	fmt.Println(err)
	// Output:
	// lost: true
	// leads again
	// <nil>
}

// Observe yields the present leader, and then each change.
func ExampleElection_Observe() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	election := farsync.NewElection(here, "/elections/scheduler")
	var lease *farsync.Lease
	for leader, err := range farsync.NewElection(there, "/elections/scheduler").Observe(ctx) {
		switch {
		case err != nil: // the last that is yielded
		case leader == farsync.Leader{} && lease == nil:
			fmt.Println("no leader yet")
			lease, err = election.Campaign(ctx, "10.0.0.1:8080")
		case leader == farsync.Leader{}:
			fmt.Println("no leader any more")
			return
		case leader.Value == "10.0.0.1:8080":
			fmt.Println(leader.Value, "leads")
			err = election.Proclaim(ctx, lease, "10.0.0.1:9090")
		default:
			fmt.Println(leader.Value, "leads")
			err = lease.Release()
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// no leader yet
	// 10.0.0.1:8080 leads
	// 10.0.0.1:9090 leads
	// no leader any more
}
