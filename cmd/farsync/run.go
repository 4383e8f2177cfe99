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
	"github.com/farsync/farsync/internal/legible"
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
	conflict  int64
	atLeast   patience
	grace     patience
	ttl       patience
	signal    string
	leftovers string
	onAsk     string
	shell     string
	label     string
	status    string

	granted   atomic.Int64  // the TTL, by the latest session
	shortened time.Duration // the grace that was said to be less than asked for
	skipped   bool          // a run was left out that may have been due
	around    []outer       // locks of the farsyncs around this one, told to farsyncs in COMMAND, the innermost first
	behind    atomic.Bool   // a call has found others that it waits for
}

// jobFlags adds the flags that say how COMMAND is run and ended.
func (w *work) jobFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&w.grace, "grace", "tell COMMAND to end so long before the lock is lost (default a third of the TTL; at most half, on ZooKeeper 0.3)")
	w.signal, w.leftovers, w.onAsk = "TERM", string(job.Wait), "say"
	f.Var(text{&w.signal, "SIGNAL"}, "signal", "by which COMMAND is told to end")
	f.Var(text{&w.leftovers, "WHAT"}, "leftovers", "what becomes of processes that COMMAND leaves running: wait, kill or leave")
	f.Var(text{&w.onAsk, "WHAT"}, "on-ask", "what to do when another client asks for the lock: say or term")
	f.VarP(text{&w.shell, "LINE"}, "command", "c", "COMMAND is this line, for $SHELL -c")
	f.Var(text{&w.status, "FILE"}, "status", "append one line of JSON to it at the end")
}

// lockFlags adds the flags that say what to lock, and how to wait for it.
func (w *work) lockFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&w.nonblock, "nonblock", "n", false, "do not wait")
	f.VarP(&w.wait, "wait", "w", "wait for so long at most; a number is seconds")
	f.BoolVarP(&w.shared, "shared", "s", false, "a read lock, beside others who read")
	f.BoolVarP(&w.exclusive, "exclusive", "x", false, "the write lock of a path that is also used with -s")
	f.Var(anyFrom(1, &w.request.size, "SIZE"), "limit", "so many units may be held at once; all users of PATH say the same size")
	f.Var(anyFrom(1, &w.request.units, "N"), "units", "how many of them to take")
	w.conflict = codeTaken
	f.VarP(&whole{&w.conflict, "CODE", 0, 255}, "conflict-exit-code", "E", "exit with it if the lock is taken")
	f.Var(&w.ttl, "ttl", "how long the service keeps the lock when it hears no more (default 10s)")
	f.Var(text{&w.label, "TEXT"}, "label", "what others see behind the host and the process ID")
}

// check checks what lockFlags has added, and decides the kind.
func (w *work) check(cmd *cobra.Command) error {
	switch {
	case w.shared && w.exclusive:
		return usage("--shared is a read lock, and --exclusive the write lock: write one of them")
	case (w.shared || w.exclusive) && w.request.size > 0:
		return usage("--limit is a semaphore, which has neither readers nor writers: leave out --limit, or --shared and --exclusive")
	case cmd.Flags().Changed("units") && w.request.size == 0:
		return usage("--units are those of a semaphore: write its size, too, with --limit SIZE")
	case w.nonblock && w.wait.set && w.wait.Duration > 0:
		return usage("--nonblock does not wait, and --wait does: write one of them")
	case w.shared:
		w.request.kind = farsync.KindRead
	case w.exclusive:
		w.request.kind = farsync.KindWrite
	case w.request.size > 0:
		w.request.kind = farsync.KindPermit
	default:
		w.request.kind = farsync.KindExclusive
	}
	w.request.try = w.nonblock || w.wait.set && w.wait.Duration == 0
	return w.checkSession()
}

// checkSession checks what an Open would refuse as if the service had.
func (w *work) checkSession() error {
	switch {
	case w.ttl.set && (w.ttl.Duration < location.LeastTTL || w.ttl.Duration > location.MostTTL):
		return usage("--ttl %v: write a time from 1s to 24h", w.ttl.Duration)
	case len(w.label) > mostLabel:
		return usage("--label has %d bytes: write %d at most", len(w.label), mostLabel)
	case !utf8.ValidString(w.label), strings.ContainsFunc(w.label, func(c rune) bool { return !unicode.IsPrint(c) }):
		return usage("--label has a character that cannot be shown in a line: write letters, digits, signs and spaces")
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
COMMAND writes, and have the receiver refuse lower ones. farsync held tells whether the lock is held.`,
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

// murmur has what is said hold nothing up from now on, and nobody killed by it: without a reader, a write to standard
// error fails with EPIPE, and no longer comes with SIGPIPE. That is not ignored, for COMMAND would inherit it.
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
		return usage("-c LINE is the COMMAND: leave out -c, or the COMMAND behind --")
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
	if err := w.checkPaths(arguments); err != nil {
		return err
	}
	w.murmur()
	if err := guard.Keep(); err != nil {
		return &exit{codeUsage, err}
	}
	link, err := guard.Attach()
	if err != nil {
		return &exit{codeUsage, err}
	}
	w.echo = link != nil
	return w.split(link, command, work)
}

// split is do for arguments that are right.
func (w *work) split(link *guard.Link, command []string, work func(*guard.Link) guard.End) (err error) {
	if w.command, err = find(command[0]); err != nil {
		return err
	}
	if w.location, err = w.locate(); err != nil {
		return err
	}
	if err := w.location.CheckFiles(); err != nil {
		return &exit{codeConfig, err}
	}
	w.join()
	w.args = command
	if link == nil {
		end, err := guard.Run(w.say)
		if errors.Is(err, guard.ErrProc) {
			return &exit{codeConfig, err}
		}
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

// checkPaths checks and notes what is to be locked.
func (w *work) checkPaths(given []string) error {
	if len(given) == 0 {
		return usage("no PATH: write what to lock, /cron/backup for example")
	}
	for i, path := range given {
		if slices.Contains(given[:i], path) {
			return usage("%s comes twice: write it once", legible.Text(path))
		}
		if err := recipe.CheckPath(path); err != nil {
			return &exit{codeData, err}
		}
	}
	w.shown = given
	return nil
}

// join has the paths begin with the prefix of the store.
func (w *work) join() {
	for _, path := range w.shown {
		w.request.paths = append(w.request.paths, w.location.Join(path))
	}
}

// find returns the path of a program.
func find(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot), errors.Is(err, fs.ErrNotExist):
		return "", &exit{codeNotFound, fmt.Errorf("%s: no such program: write one of PATH, or its path with a slash in it", legible.Text(command))}
	default:
		return "", &exit{codeCannotRun, err}
	}
}

// checkJob checks what jobFlags has added.
func (w *work) checkJob() error {
	if unix.SignalNum(signalName(w.signal)) == 0 {
		return usage("--signal %s: there is no such signal: write its name, TERM or SIGINT for example", legible.Text(w.signal))
	}
	if !slices.Contains([]job.Leftovers{job.Wait, job.Kill, job.Leave}, job.Leftovers(w.leftovers)) {
		return usage("--leftovers %s: write wait, kill or leave", legible.Text(w.leftovers))
	}
	if w.onAsk != "say" && w.onAsk != "term" {
		return usage("--on-ask %s: write say or term", legible.Text(w.onAsk))
	}
	return w.checkStatus()
}

// signalName returns the name of a signal as the system has it.
func signalName(given string) string {
	return "SIG" + strings.TrimPrefix(strings.ToUpper(given), "SIG")
}

// checkStatus refuses a FILE that cannot be made because of its name. A disk that is full, or may not be written, is
// seen at the end, for that is no reason to leave the work of COMMAND undone.
func (w *work) checkStatus() error {
	if w.status == "" {
		return nil
	}
	is, err := os.Stat(w.status)
	if err == nil && is.IsDir() {
		return usage("--status %s is a directory: write the name of a file", legible.Text(w.status))
	}
	if dir := filepath.Dir(w.status); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if is, err := os.Stat(dir); err != nil || !is.IsDir() {
			return usage("--status %s: there is no directory %s: make it first", legible.Text(w.status), legible.Text(dir))
		}
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

// open opens the Store, and notes the TTL that the service grants: ZooKeeper has bounds of its own. A later session may
// be granted another.
func (w *work) open(ctx context.Context, holder string) (store *farsync.Store, closed func() error, err error) {
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	trace := &farsync.Trace{
		Session: func(h farsync.TraceSession) {
			if h.Opened {
				w.granted.Store(int64(h.TTL))
				once()
			}
		},
		Wait: func(context.Context, farsync.TraceCall, farsync.TraceWait) { w.behind.Store(true) },
	}
	answered := w.awaiting(w.location)
	store, closed, err = w.location.Open(ctx, farsync.Options{TTL: w.asked(), Holder: holder, Logger: w.logger(), Trace: trace})
	answered()
	if err == nil {
		<-first // which the Store is about to tell
	}
	return store, closed, err
}

// code is the exit code for the error of a call that was to lock. A lock is taken only if somebody was found ahead: the
// time of --wait may have passed before the service has said anything.
func (w *work) code(err error) int {
	code := codeOf(err)
	if code == codeTaken && !errors.Is(err, farsync.ErrLocked) && !w.behind.Load() {
		code = codeUnavailable
	}
	return code
}

// job returns COMMAND as it is run under what is held.
func (w *work) job(store *farsync.Store, h *held, holder string) *job.Job {
	ttl := time.Duration(w.granted.Load())
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool {
		// A program that finds a variable twice takes the first, and a shell the last.
		return strings.HasPrefix(v, "FARSYNC_") && (w.store != "" || !strings.HasPrefix(v, location.Variable+"="))
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
		underVariable+"="+w.environs(h),
	)
	j := &job.Job{
		Path: w.command, Arguments: w.args, Environment: environment, TTL: ttl, Oldest: ttl / 4, Grace: ttl / 3,
		Signal:      unix.SignalNum(signalName(w.signal)),
		TermIfAsked: w.onAsk == "term", Leftovers: job.Leftovers(w.leftovers), Say: w.say, Remark: w.remark,
		Waits: func(left string) { h.explain(store, "processes that COMMAND left running: "+left) },
	}
	if w.location.Scheme == "zk" {
		j.Oldest = ttl / 2 // its leases count from the last renewal but one
	}
	if w.grace.set {
		j.Grace = w.grace.Duration
	}
	if most := j.MostGrace(); j.Grace > most {
		if w.grace.set && w.shortened != most {
			w.shortened = most
			w.say(fmt.Sprintf("--grace %v is longer than a TTL of %v allows: COMMAND is told to end %v before the lock is lost", w.grace.Duration, ttl, most))
		}
		j.Grace = most
	}
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
