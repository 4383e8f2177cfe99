//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

const usage = `pool shows eight processes that together do no more than five jobs at a time.

The jobs are calls of a server, which counts how many it has at once.

usage: go run ./examples/pool [flags]

  -processes n   how many processes share the jobs (default 8)
  -jobs n        how many jobs there are in all (default 200)
  -limit n       how many may be done at a time (default 5)
  -job d         how long a job takes (default 50ms)
  -no-limit      leave the semaphore out, to see what it is for (no service is
                 needed then)
  -ttl d         how long the units stay with a process that is not heard of any
                 more, in whole seconds, 1s at least (default 2s)
  -store s       etcd (the default), zk: ZooKeeper, which needs java and
                 ZooKeeper's jars, unless there are -endpoints; or sqlite, a file
  -endpoints e   use the service at host:port,host:port,... or the file; without,
                 one is started for the run and removed

exit status:

  0    all jobs were done, each once, and never more at a time than the limit
  1    something of that is not so, as with -no-limit; or the run failed
  2    a flag is wrong
  130  interrupted
`

// options are what the user asked for.
type options struct {
	processes int
	jobs      int
	limit     int64
	job       time.Duration
	noLimit   bool
	service   program.Service
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.IntVar(&o.processes, "processes", 8, "")
	flags.IntVar(&o.jobs, "jobs", 200, "")
	flags.Int64Var(&o.limit, "limit", 5, "")
	flags.DurationVar(&o.job, "job", 50*time.Millisecond, "")
	flags.BoolVar(&o.noLimit, "no-limit", false, "")
	o.service.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.processes < 1 || o.processes > 100:
		return o, fmt.Errorf("-processes %d: 1 to 100", o.processes)
	case o.jobs < o.processes:
		return o, fmt.Errorf("-jobs %d: one for each process at least", o.jobs)
	case o.limit < 1:
		return o, fmt.Errorf("-limit %d: at least 1", o.limit)
	case o.job < 0 || o.job > time.Minute:
		return o, fmt.Errorf("-job %v: up to a minute", o.job)
	}
	return o, o.service.Check()
}
