//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/farsync/farsync/examples/internal/program"
)

const usage = `quickstart shows four processes that share a number in a file under one lock.

Each adds 1 to it many times: read, add, write. One of them is killed while it
holds the lock, another is stopped for longer than the lock's TTL and then sends
its write, too late. The number must come out right all the same.

usage: go run ./examples/quickstart [flags]

  -adds n        how often each process adds, 10 at least (default 250)
  -ttl d         how long the lock stays with a process that is not heard of any
                 more, in whole seconds, 1s at least (default 2s)
  -store s       etcd (the default), zk: ZooKeeper, which needs java and
                 ZooKeeper's jars, unless there are -endpoints; or sqlite, a file
  -endpoints e   use the service at host:port,host:port,... or the file, and leave
                 nothing in it; without, one is started for the run and removed
  -primitive p   mutex (the default), rw: the write side of a read/write lock, or
                 semaphore: one of a single unit
  -no-lock       leave the lock out, to see what it is for (none is killed or
                 stopped then, and no service is needed)
  -no-fence      have the file's server accept every token, to see what they are
                 for

exit status:

  0    the number is right, tokens only ever grew, no late write got through
  1    something was lost, as with -no-lock and -no-fence; or the run failed
  2    a flag is wrong
  130  interrupted
`

// The primitives.
const (
	mutex  = "mutex"
	writer = "rw"
	permit = "semaphore"
)

// minAdds: with fewer, the others may have finished when a worker is stopped.
const minAdds = 10

// options are what the user asked for.
type options struct {
	adds      int
	service   program.Service
	primitive string
	noLock    bool
	noFence   bool
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.IntVar(&o.adds, "adds", 250, "")
	o.service.Flags(flags)
	flags.StringVar(&o.primitive, "primitive", mutex, "")
	flags.BoolVar(&o.noLock, "no-lock", false, "")
	flags.BoolVar(&o.noFence, "no-fence", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.adds < minAdds:
		return o, fmt.Errorf("-adds %d: at least %d", o.adds, minAdds)
	case !slices.Contains([]string{mutex, writer, permit}, o.primitive):
		return o, fmt.Errorf("-primitive %q: %s, %s or %s", o.primitive, mutex, writer, permit)
	case o.noLock && o.noFence:
		return o, errors.New("-no-lock and -no-fence: one at a time; without a lock there are no tokens to check")
	case o.noLock && len(o.service.Endpoints) > 0:
		return o, errors.New("-no-lock and -endpoints: without a lock there is nothing to do for the service")
	}
	return o, o.service.Check()
}
