package redis

import (
	"fmt"
	"regexp"

	"github.com/farsync/farsync"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	farsync.Options

	// Namespace names the queues of this Store, from 1 to 64 letters, digits, dots, dashes and underscores. Only Stores of
	// the same namespace and the same database share queues. In a cluster all queues of a namespace are on one server. The
	// default is "farsync".
	Namespace string
	// Replicas is how many replicas have to confirm a renewal before it counts. Set it where a replica takes over from a
	// master that fails: a master that was replaced without knowing it then keeps no holder, provided that the replicas
	// left to it are fewer than Replicas. The default is 0.
	Replicas int
	// Fresh says that nothing is held in a namespace that the server does not know. Without it, the first lock of a new
	// namespace is granted after one TTL. Set it in tests, and where a namespace is used for the first time. A server that
	// has lost its data does not know the namespace either. A Store that was there before does, and does without the
	// option then.
	Fresh bool
}

var namespaces = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// resolve returns the options with their defaults, or an error that names the option that is not valid.
func (o *Options) resolve() (resolved Options, err error) {
	if o != nil {
		resolved = *o
	}
	if resolved.Namespace == "" {
		resolved.Namespace = "farsync"
	}
	if !namespaces.MatchString(resolved.Namespace) {
		err = fmt.Errorf("option Namespace %q: only letters, digits, dots, dashes and underscores, at most 64", resolved.Namespace)
	}
	if resolved.Replicas < 0 {
		err = fmt.Errorf("option Replicas is %d: less than none", resolved.Replicas)
	}
	return resolved, err
}
