//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

const usage = `leader shows three processes of which one leads.

The leader is killed, over and over, and another takes its place when the TTL has
passed. An observer prints who leads. Two must never lead at the same time.

usage: go run ./examples/leader [flags]

  -kills n       how often the leader is killed, once at least (default 5)
  -reign d       how long a leader leads before it is killed (default 2s)
  -ttl d         how long the leadership stays with a process that is not heard of
                 any more, in whole seconds, 1s at least (default 2s)
  -store s       etcd (the default), zk: ZooKeeper, which needs java and
                 ZooKeeper's jars, unless there are -endpoints; or sqlite, a file
  -endpoints e   use the service at host:port,host:port,... or the file, and leave
                 nothing in it; without, one is started for the run and removed

exit status:

  0    never two led, tokens only ever grew, every leader was replaced
  1    something of that is not so; or the run failed
  2    a flag is wrong
  130  interrupted
`

// options are what the user asked for.
type options struct {
	kills   int
	reign   time.Duration
	service program.Service
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("leader", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.IntVar(&o.kills, "kills", 5, "")
	flags.DurationVar(&o.reign, "reign", 2*time.Second, "")
	o.service.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.kills < 1:
		return o, fmt.Errorf("-kills %d: at least 1", o.kills)
	case o.reign < 0 || o.reign > time.Minute:
		return o, fmt.Errorf("-reign %v: up to a minute", o.reign)
	}
	return o, o.service.Check()
}
