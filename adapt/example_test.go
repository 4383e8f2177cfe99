package adapt_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/adapt"
	"github.com/farsync/farsync/farsynctest"
)

// In a program the type is gocron.Lock, and the locker goes to gocron.WithDistributedLocker.
func ExampleNewGocronLocker() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	locker := adapt.NewGocronLocker[lock](store, "/cron/billing", 30*time.Second)
	defer locker.Close()

	ctx := context.Background()
	held, err := locker.Lock(ctx, "monthly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("unlocked:", held.Unlock(ctx))
	_, err = locker.Lock(ctx, "monthly") // a replica whose clock is behind
	fmt.Println("kept for 30 seconds all the same:", err != nil)
	// Output:
	// unlocked: <nil>
	// kept for 30 seconds all the same: true
}

// In a program the elector goes to gocron.WithDistributedElector.
func ExampleNewGocronElector() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	elector := adapt.NewGocronElector(farsync.NewElection(store, "/cron/leader"), "")
	err := elector.IsLeader(context.Background())
	fmt.Println("leads without Run:", !errors.Is(err, adapt.ErrNotLeader))
	// Output:
	// leads without Run: false
}

// In a program its methods take the place of those of a certmagic.Storage.
func ExampleNewCertMagic() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	locks := adapt.NewCertMagic(store, "/certmagic")

	ctx := context.Background()
	fmt.Println(locks.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(locks.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// <nil>
}
