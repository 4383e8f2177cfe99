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

// Options are the options of a Store: see farsync.Options, which says what each of them is.
type Options struct {
	TTL     time.Duration // from leastTTL to mostTTL; 0 is defaultTTL
	Holder  string        // empty: the host name and the process ID
	Name    string
	Late    bool
	Logger  *slog.Logger // nil: nothing is logged
	OnState func(State)
	Trace   *Trace
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
