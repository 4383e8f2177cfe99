package zk_test

import (
	"context"
	"errors"
	"log"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// The Store has a session and a connection of its own.
func ExampleOpen() {
	ctx := context.Background()
	store, err := zk.Open(ctx, []string{"10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2181"}, &zk.Options{
		Options:   farsync.Options{TTL: 15 * time.Second},
		Namespace: "/billing", // Curator's namespace
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	err = farsync.NewMutex(store, "/locks/billing").Do(ctx, func(ctx context.Context, token farsync.Token) error {
		return nil // the work
	})
	if err != nil {
		log.Print(err)
	}
}

// A Multi with a guard commits only while the lease is held, even if the process slept since it looked.
func ExampleGuard() {
	withdraw := func(conn *client.Conn, lease *farsync.Lease) error {
		set := &client.SetDataRequest{Path: "/balance", Data: []byte("100"), Version: -1}
		_, err := conn.Multi(append(zk.Guard(lease), set)...)
		if errors.Is(err, client.ErrNoNode) {
			return farsync.ErrLost
		}
		return err
	}
	_ = withdraw
}
