package etcd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
)

// The client is the program's own, and stays open until after the Store is closed.
func ExampleOpen() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"},
		DialKeepAliveTime: 5 * time.Second, // a connection that has died in silence is given up
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	store, err := etcd.Open(ctx, client, &etcd.Options{Options: farsync.Options{TTL: 15 * time.Second}})
	if err != nil {
		log.Print(err)
		return
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

// A transaction with a guard commits only while the lease is held, even if the process slept since it looked.
func ExampleGuard() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	store, err := etcd.Open(ctx, client, nil)
	if err != nil {
		log.Print(err)
		return
	}
	defer store.Close()
	lease, err := farsync.NewMutex(store, "/locks/billing").Lock(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	pay := func() {
		resp, err := client.Txn(ctx).If(etcd.Guard(lease)...).Then(clientv3.OpPut("/balance", "100")).Commit()
		switch {
		case err != nil:
			fmt.Println(err)
		case resp.Succeeded:
			fmt.Println("paid")
		default:
			fmt.Println("another may hold the lock, and nothing was paid")
		}
	}
	pay()
	if err := lease.Release(); err != nil {
		log.Print(err)
	}
	pay()
}
