package etcd

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/farsync/farsync/recipe"
)

const defaultTTL = 10 * time.Second

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	// TTL is how long the service keeps what this Store holds when it hears no more from it. It is rounded up to whole
	// seconds, and the server may raise it; what the server grants counts. 10 seconds if zero.
	//
	// A short TTL frees the locks of a dead process sooner. A long one survives longer interruptions.
	TTL time.Duration
	// Holder is what others see of this Store: 1024 bytes of printable text at most. Host name, process id and program
	// name if empty. It is not a place for secrets.
	Holder string
	// Name is needed where a MultiMutex has members on several stores: then each has one, the same in all processes.
	Name string
	// Logger gets what happens to the session and to clean-up. Nothing is logged if it is nil.
	Logger *slog.Logger
	// OnState is told how the Store stands with the service, from one goroutine, in order. It must return: Close waits
	// for it.
	OnState func(recipe.State)
}

// resolve returns the options with their defaults.
func (o *Options) resolve() (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	if r.TTL < 0 {
		return r, fmt.Errorf("TTL %v is negative", r.TTL)
	}
	if r.TTL == 0 {
		r.TTL = defaultTTL
	}
	// Up to whole seconds, but for one that is too long for that: the server refuses it.
	if over := r.TTL % time.Second; over > 0 && r.TTL <= math.MaxInt64-time.Second {
		r.TTL += time.Second - over
	}
	holder, err := recipe.Holder(r.Holder)
	if err != nil {
		return r, err
	}
	r.Holder = holder
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r, nil
}
