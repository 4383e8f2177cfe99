//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/cmd/farsync/internal/job"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// work is what run and elect have in common: COMMAND, and what it is run under.
type work struct {
	*app
	location *location.Location
	request  request
	shown    []string // the paths as they were given
	command  string   // its path
	args     []string

	nonblock  bool
	shared    bool
	exclusive bool
	wait      patience
	conflict  int
	atLeast   patience
	grace     patience
	ttl       patience
	signal    string
	leftovers string
	onAsk     string
	shell     string
	label     string
	status    string

	granted atomic.Int64 // the TTL, by the latest session
}

// jobFlags adds the flags that say how COMMAND is run and ended.
func (w *work) jobFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&w.grace, "grace", "tell COMMAND to end so long before the lock is lost (default a third of the TTL; at most half, on ZooKeeper 0.3)")
	f.StringVar(&w.signal, "signal", "TERM", "the `SIGNAL` by which COMMAND is told to end")
	f.StringVar(&w.leftovers, "leftovers", "wait", "what becomes of processes that COMMAND leaves running: wait, kill or leave")
	f.StringVar(&w.onAsk, "on-ask", "say", "what to do when another client asks for the lock: say or term")
	f.StringVarP(&w.shell, "command", "c", "", "COMMAND is a `LINE` for $SHELL -c")
	f.StringVar(&w.status, "status", "", "append one line of JSON to `FILE` at the end")
}

// lockFlags adds the flags that say what to lock, and how to wait for it.
func (w *work) lockFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&w.nonblock, "nonblock", "n", false, "do not wait")
	f.VarP(&w.wait, "wait", "w", "wait for so long at most; a number is seconds")
	f.BoolVarP(&w.shared, "shared", "s", false, "a read lock, beside others who read")
	f.BoolVarP(&w.exclusive, "exclusive", "x", false, "the write lock of a path that is also used with -s")
	f.Int64Var(&w.request.size, "limit", 0, "so many units may be held at once; all users of PATH say the same `SIZE`")
	f.Int64Var(&w.request.units, "units", 1, "how many `N` of them to take")
	f.IntVarP(&w.conflict, "conflict-exit-code", "E", codeTaken, "exit with this `CODE` if the lock is taken")
	f.Var(&w.ttl, "ttl", "how long the service keeps the lock when it hears no more (default 10s)")
	f.StringVar(&w.label, "label", "", "`TEXT` that others see behind the host and the process ID")
}

// check checks what lockFlags has added, and decides the kind.
func (w *work) check(cmd *cobra.Command) error {
	switch {
	case w.shared && w.exclusive:
		return usage("--shared and --exclusive")
	case (w.shared || w.exclusive) && w.request.size > 0:
		return usage("--limit is a semaphore, which has neither readers nor writers")
	case cmd.Flags().Changed("limit") && w.request.size < 1:
		return usage("--limit is less than 1")
	case cmd.Flags().Changed("units") && w.request.size == 0:
		return usage("--units needs --limit")
	case w.request.units < 1:
		return usage("--units is less than 1")
	case w.conflict < 0 || w.conflict > 255:
		return usage("an exit code is 0 to 255")
	case w.shared:
		w.request.kind = driver.Read
	case w.exclusive:
		w.request.kind = driver.Write
	case w.request.size > 0:
		w.request.kind = driver.Permit
	default:
		w.request.kind = driver.Exclusive
	}
	w.request.try = w.nonblock || w.wait.set && w.wait.Duration == 0
	return w.checkSession()
}

// checkSession checks what an Open would refuse as if the service had.
func (w *work) checkSession() error {
	switch {
	case w.ttl.set && (w.ttl.Duration < location.LeastTTL || w.ttl.Duration > location.MostTTL):
		return usage("--ttl is 1s to 24h")
	case len(w.label) > mostLabel:
		return usage("--label has %d bytes, %d are allowed", len(w.label), mostLabel)
	case !utf8.ValidString(w.label), strings.ContainsFunc(w.label, func(c rune) bool { return !unicode.IsPrint(c) }):
		return usage("--label has a character that cannot be shown in a line")
	default:
		return nil
	}
}

// mostLabel leaves enough of the name that a Store may have for the host and the process ID.
const mostLabel = 512

func (a *app) runVerb() *cobra.Command {
	w := &work{app: a, request: request{units: 1}}
	cmd := &cobra.Command{
		Use:               "run [flags] PATH… -- COMMAND [ARGUMENT…]",
		ValidArgsFunction: a.paths,
		Short:             "Run COMMAND while holding a lock",
		Long: `run locks PATH, or all of several paths, runs COMMAND, and gives the locks back when COMMAND and all that it has started
have ended. A path is a slash and then segments of letters, digits, dots, dashes and underscores, joined by slashes.

When the lock is lost, COMMAND and what it has started are killed before the service can give the lock to another client.
A lock that is not renewed is lost at a time that is known before: COMMAND is told so, by SIGTERM, a grace earlier. This
holds also if farsync itself is killed or stopped. docs/COMMAND.md says for which programs it cannot hold.

COMMAND finds FARSYNC_TOKEN in its environment, a number that only rises from one holder to the next: give it with what
COMMAND writes, and have the receiver refuse lower ones. farsync held tells whether the lock is held.

` + exitHelp,
		Example: `  farsync run -n -E 0 /cron/backup -- backup.sh     on one of many hosts
  farsync run -w 10m /deploy/shop -- ./deploy.sh    one after the other
  farsync run --limit 3 /reindex -- reindex         three at a time`,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := w.check(cmd); err != nil {
				return err
			}
			return w.do(cmd, arguments, w.once)
		},
	}
	w.lockFlags(cmd)
	f := cmd.Flags()
	f.Var(&w.atLeast, "at-least", "hold the lock for so long at least: longer than the clocks of the hosts are apart; a loss after COMMAND does not change the exit code")
	w.jobFlags(cmd)
	return cmd
}

// murmur has what is said hold nothing up from now on, and nobody killed by it: without a reader, a write to standard error fails
// with EPIPE, and no longer comes with SIGPIPE. That is not ignored, for COMMAND would inherit it.
func (w *work) murmur() {
	guard.Catch(make(chan os.Signal, 1), syscall.SIGPIPE)
	w.voice = speak(w.stderr)
	w.stderr = w.voice
}

// do checks the arguments. Then the guard runs the supervisor, and the supervisor runs work.
func (w *work) do(cmd *cobra.Command, arguments []string, work func(*guard.Link) guard.End) error {
	dash := cmd.ArgsLenAtDash()
	command := []string{}
	if dash >= 0 {
		arguments, command = arguments[:dash], arguments[dash:]
	}
	switch {
	case w.shell != "" && len(command) > 0:
		return usage("-c LINE and a COMMAND behind --")
	case w.shell != "":
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		command = []string{shell, "-c", w.shell}
	case len(command) == 0:
		return usage("no COMMAND: write it behind --, as in farsync %s PATH -- COMMAND", cmd.Name())
	}
	if err := w.checkJob(); err != nil {
		return err
	}
	w.murmur()
	link, err := guard.Attach()
	if err != nil {
		return &exit{codeUsage, err}
	}
	return w.split(link, arguments, command, work)
}

// split is do for arguments that are right.
func (w *work) split(link *guard.Link, paths, command []string, work func(*guard.Link) guard.End) (err error) {
	if w.location, err = w.locate(); err != nil {
		return err
	}
	if err := w.paths(paths); err != nil {
		return err
	}
	if w.command, err = find(command[0]); err != nil {
		return err
	}
	w.args = command
	if link == nil {
		end, err := guard.Run(w.say)
		if err != nil {
			return &exit{codeCannotRun, err}
		}
		w.die = end.Die
		return &exit{code: end.Code}
	}
	end := work(link)
	link.Done(end)
	return &exit{code: end.Code}
}

// paths notes what is to be locked.
func (w *work) paths(given []string) error {
	if len(given) == 0 {
		return usage("no PATH")
	}
	w.shown = given
	for i, path := range given {
		if slices.Contains(given[:i], path) {
			return usage("%s comes twice", path)
		}
		if err := recipe.CheckPath(path); err != nil {
			return &exit{codeData, err}
		}
		w.request.paths = append(w.request.paths, w.location.Join(path))
	}
	return nil
}

// find returns the path of a program.
func find(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot), errors.Is(err, fs.ErrNotExist):
		return "", &exit{codeNotFound, fmt.Errorf("%s: no such program", command)}
	default:
		return "", &exit{codeCannotRun, err}
	}
}

// checkJob checks what jobFlags has added.
func (w *work) checkJob() error {
	if unix.SignalNum("SIG"+strings.TrimPrefix(strings.ToUpper(w.signal), "SIG")) == 0 {
		return usage("--signal %s is none", w.signal)
	}
	if !slices.Contains([]job.Leftovers{job.Wait, job.Kill, job.Leave}, job.Leftovers(w.leftovers)) {
		return usage("--leftovers is wait, kill or leave")
	}
	if w.onAsk != "say" && w.onAsk != "term" {
		return usage("--on-ask is say or term")
	}
	return nil
}

// asked returns the TTL that is asked for.
func (w *work) asked() time.Duration {
	switch {
	case w.ttl.set:
		return w.ttl.Duration
	case w.location.TTL != 0:
		return w.location.TTL
	default:
		return 10 * time.Second
	}
}

// open opens the Store, and notes the TTL that the service grants: ZooKeeper has bounds of its own. A later session may be granted another.
func (w *work) open(ctx context.Context, holder string) (store *farsync.Store, closed func() error, err error) {
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	trace := &farsync.Trace{Session: func(h farsync.Health) {
		if h.Opened {
			w.granted.Store(int64(h.TTL))
			once()
		}
	}}
	store, closed, err = w.location.Open(ctx, farsync.Options{TTL: w.asked(), Holder: holder, Logger: w.logger(), Trace: trace})
	if err == nil {
		<-first // which the Store is about to tell
	}
	return store, closed, err
}

// job returns COMMAND as it is run under what is held.
func (w *work) job(h *held, holder string) *job.Job {
	ttl := time.Duration(w.granted.Load())
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "FARSYNC_") && !strings.HasPrefix(v, location.Variable+"=")
	})
	if w.store != "" {
		environment = append(environment, location.Variable+"="+w.location.Portable())
	}
	environment = append(environment,
		"FARSYNC_PATH="+strings.Join(w.shown, " "),
		"FARSYNC_TOKEN="+spaced(h.tokens()),
		"FARSYNC_KIND="+w.request.kind.String(),
		"FARSYNC_HOLDER="+holder,
		"FARSYNC_TTL="+ttl.String(),
		"FARSYNC_ENTRY="+strings.Join(h.entries(), " "),
	)
	j := &job.Job{
		Path: w.command, Arguments: w.args, Environment: environment, TTL: ttl, Oldest: ttl / 4, Grace: ttl / 3,
		Signal:      unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(w.signal), "SIG")),
		TermIfAsked: w.onAsk == "term", Leftovers: job.Leftovers(w.leftovers), Say: w.say,
	}
	if w.location.Scheme == "zk" {
		j.Oldest = ttl / 2 // its leases count from the last renewal but one
	}
	if w.grace.set {
		j.Grace = w.grace.Duration
	}
	j.Grace = min(j.Grace, j.MostGrace())
	return j
}

// holder is what others see: the process that the user has started, and the label.
func (w *work) holder(pid int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	holder := fmt.Sprintf("%s pid %d", host, pid)
	if w.label != "" {
		holder += " " + w.label
	}
	return holder
}

// cannotRun is the exit code of a COMMAND that was there a moment ago and was not started.
func cannotRun(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeCannotRun
}

// base is the name of COMMAND in a message.
func (w *work) base() string { return filepath.Base(w.args[0]) }
