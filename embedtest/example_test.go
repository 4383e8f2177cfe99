//go:build unix

package embedtest_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/farsync/farsync/embedtest"
)

// A program that brings its own etcd server. In a test, embedtest.Etcd(t) does all of this in one line.
func ExampleStartEtcd() {
	embedtest.Child() // first in main: this very executable is the server too

	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	etcd, err := embedtest.StartEtcd(context.Background(), dir, 1)
	if err != nil {
		log.Print(err)
		return
	}
	defer etcd.Close()
	fmt.Println(len(etcd.Endpoints()), "endpoint")
	// Output: 1 endpoint
}
