package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// The exit codes, after sysexits.h where that has one. meanings explains them.
const (
	codeNothing     = 1
	codeUsage       = 64
	codeData        = 65
	codeUnavailable = 69
	codeOutput      = 74
	codeTaken       = 75
	codeNoPerm      = 77
	codeConfig      = 78
	codeLost        = 79
	codeCannotRun   = 126
	codeNotFound    = 127
	codeSignal      = 128
)

// A meaning is what an exit code says.
type meaning struct{ codes, words string }

var (
	ofCommand = meaning{"COMMAND's", "COMMAND has ended by itself"}
	ofSignal  = meaning{"128+n", "COMMAND has died of signal n; or the wait for the lock was ended by it: 130 after Ctrl-C. farsync itself dies of " +
		"SIGINT, SIGQUIT, SIGTERM and SIGHUP, which a shell shows as that code, if they were typed or sent to it"}
	ofUsage       = meaning{"64", "wrong arguments: the line on standard error says what to write instead"}
	ofData        = meaning{"65", "a name that is no path, a path that is used as another kind of lock, or a lock that would wait for itself"}
	ofPath        = meaning{"65", "a name that is no path"}
	ofUnavailable = meaning{"69", "the service does not answer, or grants nothing for a while as Redis does after a restart"}
	ofOutput      = meaning{"74", "standard output cannot be written"}
	ofTaken       = meaning{"75", "the lock is taken, or the time of --wait has passed (-E changes it)"}
	ofNoPerm      = meaning{"77", "the service refuses"}
	ofConfig      = meaning{"78", "no store, or its URL or a file that it names is wrong"}
	ofLost        = meaning{"79", "the lock was lost: COMMAND was ended, or had ended when that was noticed"}
	ofNoCommand   = meaning{"126, 127", "COMMAND cannot be run, or is not there; mostly that is seen before anything is locked"}
)

// meanings are the exit codes of all verbs. docs/COMMAND.md has the same.
var meanings = []meaning{
	ofCommand,
	ofSignal,
	{"1", "leader: there is none; who: neither a holder nor a waiter; break: no holder has that token; doctor: something is wrong"},
	ofUsage,
	ofData,
	{"69", "the service does not answer, or grants nothing for a while as Redis does after a restart; the time of --wait has passed before anybody was found ahead; or the lock was lost before COMMAND was started; serve: its address cannot be listened at"},
	{"74", "standard output, or a file that man writes, cannot be written"},
	{"75", "the lock is taken, or the time of --wait has passed (-E changes it); ask and break: it is still held"},
	ofNoPerm,
	ofConfig,
	ofLost,
	ofNoCommand,
}

// ownMeanings are the meanings of each verb, besides 0 and ofUsage.
var ownMeanings = map[string][]meaning{
	"run": {
		ofCommand, ofSignal, ofUsage, ofData,
		{"69", "the service does not answer, or grants nothing for a while as Redis does after a restart; the time of --wait has passed before anybody was found ahead; or the lock was lost before COMMAND was started"},
		ofTaken, ofNoPerm, ofConfig, ofLost, ofNoCommand,
	},
	"elect": {
		ofCommand, ofSignal, ofUsage, ofData,
		{"69", "the service does not answer, or grants nothing for a while as Redis does after a restart; or the lead was lost before COMMAND was started"},
		ofNoPerm, ofConfig,
		{"79", "the lead was lost, and COMMAND had been sent SIGINT or SIGTERM"},
		ofNoCommand,
	},
	"hold": {
		{"0", "the lock was given back, or given up while it was waited for"},
		{"128+n", "signal n has ended the wait for the lock"},
		ofUsage, ofData, ofUnavailable, ofOutput, ofTaken, ofNoPerm, ofConfig,
		{"79", "the lock was lost"},
	},
	"held": {
		{"0", "the lock is held"},
		{"64", "wrong arguments, or farsync run has not started this process"},
		ofOutput,
		{"79", "the lock is lost"},
	},
	"who":    looks(ofPath, meaning{"1", "there is neither a holder nor a waiter"}),
	"watch":  looks(ofPath, meaning{"0", "a signal has ended it"}),
	"serve":  {{"0", "a signal has ended it"}, ofUsage, ofPath, {"69", "the service does not answer, or grants nothing for a while as Redis does after a restart; or --listen cannot be listened at"}, ofNoPerm, ofConfig},
	"leader": looks(ofData, meaning{"1", "there is no leader"}),
	"ask":    looks(ofPath, meaning{"75", "the lock is still held when the time of --wait has passed"}),
	"break":  looks(ofPath, meaning{"1", "no holder has that token"}, meaning{"75", "the holder has not ended the lease within --wait"}),
	"resize": looks(meaning{"65", "a name that is no path, or a path that is no semaphore"}),
	"doctor": {{"1", "something is wrong, on a line that begins with !!"}, ofUsage, ofPath, ofOutput, ofConfig},
	"man":    {ofUsage, {"74", "standard output, or the file, cannot be written"}},
}

// looks are the meanings of a verb that looks at locks, with its own meanings.
func looks(own ...meaning) []meaning {
	list := slices.Concat(own, []meaning{ofUsage, ofUnavailable, ofOutput, ofNoPerm, ofConfig})
	slices.SortStableFunc(list, func(a, b meaning) int {
		return cmp.Or(cmp.Compare(len(a.codes), len(b.codes)), cmp.Compare(a.codes, b.codes))
	})
	return list
}

// meaningsOf returns the exit codes that a verb has, or the codes of all verbs.
func meaningsOf(cmd *cobra.Command) []meaning {
	if !cmd.HasParent() {
		return meanings
	}
	if own, listed := ownMeanings[cmd.Name()]; listed {
		return own
	}
	return []meaning{ofUsage, ofOutput}
}

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

// unwritten is the error of an output that could not be written; nil for nil.
func unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &exit{codeOutput, fmt.Errorf("what was to be shown cannot be written: %w", err)}
}

// usage is the error of wrong arguments.
func usage(format string, arguments ...any) error {
	return &exit{codeUsage, fmt.Errorf(format, arguments...)}
}

// codeOf returns the exit code for the error of a call on a Store.
func codeOf(err error) int {
	switch {
	case errors.Is(err, farsync.ErrUnavailable), errors.Is(err, farsync.ErrLost), errors.Is(err, farsync.ErrClosed), errors.Is(err, farsync.ErrUncertain):
		return codeUnavailable
	case errors.Is(err, farsync.ErrLocked), errors.Is(err, context.DeadlineExceeded):
		return codeTaken
	case errors.Is(err, farsync.ErrPath), errors.Is(err, farsync.ErrSize), errors.Is(err, farsync.ErrTooLarge), errors.Is(err, farsync.ErrKind),
		errors.Is(err, farsync.ErrDeadlock):
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
