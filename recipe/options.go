package recipe

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
	"unicode"
	"unicode/utf8"
)

// Options are those that every Store has. The zero value of each field is a good choice.
type Options struct {
	// TTL is how long the service keeps what this Store holds when it hears no more from it, from 1 second to 1 day. The
	// service may round it, and what it grants counts. The default is 10 seconds.
	//
	// A short TTL frees the locks of a dead process sooner. A long one survives longer interruptions. The next holder has the
	// lock a TTL after the last renewal that the service saw, and at most as much later as it takes to notice: a second on etcd,
	// one of its ticks on ZooKeeper, and on Redis, PostgreSQL, MySQL and in an SQLite file up to a quarter of the TTL of the Store
	// that notices. When the leader of etcd or ZooKeeper changes meanwhile, the TTL begins again. A Redis server that was restarted
	// or replaced grants nothing for one TTL.
	TTL time.Duration
	// Holder is what others see of this Store: at most 1024 bytes of printable text. The default is the host name and the
	// process ID. It is not a place for secrets.
	Holder string
	// Name identifies the Store in a MultiMutex whose members are on several Stores, and in a QuorumMutex. It must be the
	// same in all processes.
	Name string
	// Late has Open return a Store although the service does not answer, for a service that others stand in for, as in a
	// QuorumMutex. The Store is Lost until it has its first session. Open still waits for the service, until ctx's deadline or
	// for 5 seconds: give each Open a short ctx of its own. A ctx that is cancelled is an error of Open all the same, and so is a
	// service that refuses, with a wrong password for example.
	Late bool
	// Logger receives what happens to the session, to locks and to cleanup. docs/RUNBOOK.md explains every line.
	// Nothing is logged if it is nil. One goroutine calls its Handler, in order, and nothing but Close waits for it,
	// for a second at most: a Handler that blocks or panics costs no lease. While it blocks 256 lines wait. Lines for
	// which there is no room are left out, and a line says how many. Enabled is called where a line is made, and must
	// return at once. Lines that are not written when the process ends are lost: close the Store first.
	Logger *slog.Logger
	// OnState is called when the State of the Store changes, in order, from one goroutine, for which nothing but Close
	// waits, for a second at most. An OnState that is 64 states behind is not told the oldest of them. A panic is
	// logged. OnState may call Close.
	OnState func(State)
	// Trace is told what the primitives on the Store do, for metrics and traces. Packages otelfarsync and promfarsync make one.
	Trace *Trace
}

const (
	defaultTTL = 10 * time.Second
	leastTTL   = time.Second
	mostTTL    = 24 * time.Hour
	maxHolder  = 1024 // generous for what people read in a list
)

// resolve returns the options with their defaults, or an error that names the option that is not valid.
func (o Options) resolve() (Options, error) {
	switch {
	case o.TTL == 0:
		o.TTL = defaultTTL
	case o.TTL < leastTTL || o.TTL > mostTTL:
		return o, fmt.Errorf("option TTL %v is out of range (%v to %v)", o.TTL, leastTTL, mostTTL)
	}
	if o.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Holder = fmt.Sprintf("%s pid %d", host, os.Getpid())
	}
	if err := checkHolder(o.Holder); err != nil {
		return o, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkHolder refuses what cannot be shown in a line.
func checkHolder(holder string) error {
	if len(holder) > maxHolder {
		return fmt.Errorf("option Holder has %d bytes, %d are allowed", len(holder), maxHolder)
	}
	if !utf8.ValidString(holder) {
		return errors.New("option Holder is not valid UTF-8")
	}
	for _, c := range holder {
		if !unicode.IsPrint(c) {
			return fmt.Errorf("option Holder has the character %U, which is not printable", c)
		}
	}
	return nil
}
