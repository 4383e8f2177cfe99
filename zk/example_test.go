package zk_test

import (
	"context"
	"errors"
	"fmt"
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

	err = farsync.NewMutex(store, "/locks/billing").Do(ctx, func(ctx context.Context, lease *farsync.Lease) error {
		fmt.Println("the work, with token", lease.Token())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

// A Multi with a guard commits only while the lease is held, even if the process slept since it looked.
func ExampleGuard() {
	servers := []string{"10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2181"}
	ctx := context.Background()
	store, err := zk.Open(ctx, servers, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	conn, events, err := client.Connect(servers, 10*time.Second, client.WithLogInfo(false)) // what is protected has a client of its own
	if err != nil {
		log.Print(err)
		return
	}
	go func() {
		for range events { // they end with Close
		}
	}()
	defer conn.Close()
	if _, err := conn.Create("/balance", nil, 0, client.WorldACL(client.PermAll)); err != nil && !errors.Is(err, client.ErrNodeExists) {
		log.Print(err)
		return
	}
	lease, err := farsync.NewMutex(store, "/locks/billing").Lock(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	pay := func() {
		set := &client.SetDataRequest{Path: "/balance", Data: []byte("100"), Version: -1}
		_, err := conn.Multi(append(zk.Guard(lease), set)...)
		switch {
		case errors.Is(err, client.ErrNoNode):
			fmt.Println("another may hold the lock, and nothing was paid")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("paid")
		}
	}
	pay()
	if err := lease.Release(); err != nil {
		log.Print(err)
	}
	pay()
}
