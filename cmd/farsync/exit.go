package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// The exit codes, after sysexits.h where that has one. exitHelp explains them.
const (
	codeNothing     = 1
	codeUsage       = 64
	codeData        = 65
	codeUnavailable = 69
	codeTaken       = 75
	codeNoPerm      = 77
	codeConfig      = 78
	codeLost        = 79
	codeCannotRun   = 126
	codeNotFound    = 127
	codeSignal      = 128
)

const exitHelp = `Exit codes:
  COMMAND's  COMMAND has ended by itself
  128+n      COMMAND has died of signal n; or the wait for the lock was ended by it: 130 after Ctrl-C. farsync itself dies of
             SIGINT, SIGQUIT, SIGTERM and SIGHUP, which a shell shows as that code, if they were typed or sent to it
  75         the lock is taken, or the time of --wait has passed (-E changes it)
  79         the lock was lost: COMMAND was ended, or had ended when that was noticed
  69         the service does not answer, or the lock was lost before COMMAND was started
  77         the service refuses
  78         no store, or its URL or a file that it names is wrong
  64, 65     wrong arguments; a name that is no path, or a path that is used in another way
  126, 127   COMMAND cannot be run, or is not there; mostly that is seen before anything is locked
  1          leader: there is none; who: neither a holder nor a waiter; break: no holder has that token;
             doctor: something is wrong
`

// An exit is an error with an exit code. Without an error there is nothing to be said.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage is the error of wrong arguments.
func usage(format string, arguments ...any) error {
	return &exit{codeUsage, fmt.Errorf(format, arguments...)}
}

// codeOf returns the exit code for the error of a call on a Store.
func codeOf(err error) int {
	switch {
	case errors.Is(err, farsync.ErrUnavailable), errors.Is(err, farsync.ErrLost), errors.Is(err, farsync.ErrClosed), errors.Is(err, farsync.ErrUnknown):
		return codeUnavailable
	case errors.Is(err, farsync.ErrLocked), errors.Is(err, context.DeadlineExceeded):
		return codeTaken
	case errors.Is(err, farsync.ErrName), errors.Is(err, farsync.ErrSize), errors.Is(err, farsync.ErrTooLarge), errors.Is(err, farsync.ErrKind):
		return codeData
	case errors.Is(err, farsync.ErrNoLeader):
		return codeNothing
	default:
		return codeNoPerm
	}
}

// codeOfOpen returns the exit code for the error of an Open.
func codeOfOpen(err error) int {
	switch {
	case errors.Is(err, location.ErrConfig), errors.Is(err, fs.ErrNotExist):
		return codeConfig
	case errors.Is(err, context.DeadlineExceeded): // nothing was taken: the service did not answer
		return codeUnavailable
	default:
		return codeOf(err)
	}
}
