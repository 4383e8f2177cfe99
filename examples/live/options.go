//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

const usage = `live shows ten processes and their locks in a browser.

usage: go run ./examples/live [flags]

  -for d         how long it goes on, 0 until Ctrl-C (default 0)
  -patience d    how long the two in the deadlock wait (default 20s)
  -ttl d         how long a lock stays with a process that is not heard of any
                 more, in whole seconds, 1s at least (default 5s)
  -store s       sqlite (the default), a file; etcd; or zk: ZooKeeper, which needs
                 java and ZooKeeper's jars, unless there are -endpoints
  -endpoints e   use the service at host:port,host:port,... or the file; without,
                 one is started for the run and removed

exit status:

  0    it has gone on for so long
  1    the run failed
  2    a flag is wrong
  130  interrupted
`

// options are what the user asked for.
type options struct {
	length   time.Duration
	patience time.Duration
	service  program.Service
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("live", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.DurationVar(&o.length, "for", 0, "")
	flags.DurationVar(&o.patience, "patience", 20*time.Second, "")
	o.service.Flags(flags)
	o.service.Kind, o.service.TTL = program.SQLite, 5*time.Second
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.length < 0:
		return o, fmt.Errorf("-for %v: 0 or more", o.length)
	case o.patience <= 0:
		return o, fmt.Errorf("-patience %v: more than 0", o.patience)
	}
	return o, o.service.Check()
}
