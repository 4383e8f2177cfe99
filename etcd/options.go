package etcd

import "github.com/farsync/farsync"

// Options change how a Store behaves. The zero value of each field is a good choice.
//
// The TTL is rounded up to whole seconds, and the server may raise it.
type Options struct {
	farsync.Options
}
