// Command farsync runs programs under locks that hold across machines, and shows who holds a lock and who waits.
// docs/COMMAND.md is its manual.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/legible"
)

func main() {
	a := &app{stdout: os.Stdout, stderr: os.Stderr, die: func() {}}
	code := a.execute(os.Args[1:])
	a.die()
	os.Exit(code)
}

// execute runs the command and returns its exit code.
func (a *app) execute(arguments []string) int {
	stdout, stderr := a.stdout, a.stderr
	defer func() { a.voice.flush() }()
	root := a.root()
	root.SetArgs(arguments)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		err = unwritten(a.unwritten) // of a help, which returns nothing
	}
	var e *exit
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &e): // cobra's own, about the arguments
		e = &exit{codeUsage, err}
	}
	if e.err != nil {
		a.complain(e)
	}
	return e.code
}

// complain says an error, to a program that reads JSON as an object.
func (a *app) complain(e *exit) {
	if !a.json {
		a.say(words(e.err))
		return
	}
	line, _ := json.Marshal(errorJSON{1, words(e.err), e.code}) // cannot fail
	fmt.Fprintf(a.stderr, "%s\n", line)
}

// An errorJSON is what --json makes of an error, on standard error.
type errorJSON struct {
	Schema int    `json:"schema"`
	Error  string `json:"error"`
	Exit   int    `json:"exit"`
}

// An app is one call of the command: what the flags of all verbs say, and where it writes.
type app struct {
	store   string
	dial    patience
	json    bool
	quiet   bool
	verbose bool

	stdout, stderr io.Writer
	unwritten      error  // why a help was not written
	echo           bool   // the guard has said what there is to say of the store
	voice          *voice // behind stderr, in the verbs that hold a lock
	die            func() // is called before this process exits, and may not return: a signal has ended what it did
}

// root returns the command with all its verbs, each in a file of its name.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "farsync",
		Short: "Run programs under locks that hold across machines",
		Long: "farsync runs programs under locks that hold across machines, and shows who holds and who waits.\n" +
			"The locks are on etcd, ZooKeeper, Redis, PostgreSQL or MySQL, or for one machine in a file.\n\n" + environmentHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(root *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return noVerb(root, arguments[0])
			}
			return nil
		},
		RunE: func(root *cobra.Command, _ []string) error {
			if a.json {
				return usage("a verb is missing: farsync --help lists the verbs")
			}
			fmt.Fprint(a.stderr, short(root))
			return &exit{code: codeUsage}
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.helpVerb())
	root.SetHelpFunc(a.help)
	root.SetFlagErrorFunc(noFlag)
	flags := root.PersistentFlags()
	flags.Var(text{&a.store, "URL"}, "store", "where the locks are: "+location.Forms)
	flags.Var(&a.dial, "dial-timeout", "give up, with 69, when the service has not answered for so long at the start (default 30s)")
	flags.BoolVar(&a.json, "json", false, "write JSON, one object a line, for programs, and say nothing while waiting")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing while waiting")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "log what happens to sessions and locks")
	root.AddCommand(a.verbs()...)
	return root
}

const environmentHelp = `The store is the URL of --store, or of the variable FARSYNC_STORE, or what ETCDCTL_ENDPOINTS and the other variables of etcdctl
name. There is no default.

  etcd://[USER:PASSWORD@]HOST[:2379][,HOST…][/PREFIX][?ttl=10s&cacert=FILE…]
  zk://[USER:PASSWORD@]HOST[:2181][,HOST…][/PREFIX][?…]
  redis://[USER:PASSWORD@]HOST[:6379][/PREFIX][?…]
  postgres://USER[:PASSWORD]@HOST[:5432]/DATABASE[?…]
  mysql://[USER[:PASSWORD]@]HOST[:3306]/DATABASE[?…]
  sqlite:FILE[?…]
`

// say writes a line for people.
func (a *app) say(text string) { fmt.Fprintln(a.stderr, "farsync:", legible.Lines(text)) }

// remark is say for what goes on, which a program that reads JSON has no use for. An error is said in any case.
func (a *app) remark(text string) {
	if !a.json {
		a.say(text)
	}
}

// These are no use to a person: the name of an entry beside the name of its holder, and the error of a context beside
// its cause.
var (
	besideName = regexp.MustCompile(`" \(entry "(?:[^"\\]|\\.)*"\)`)
	ofContext  = strings.NewReplacer("context deadline exceeded: ", "", "context canceled: ", "",
		"context deadline exceeded", "the time has passed", "context canceled", "it was given up")
)

// words returns the words of an error for people. The error may begin with farsync by itself.
func words(err error) string {
	text := ofContext.Replace(besideName.ReplaceAllString(strings.TrimPrefix(err.Error(), "farsync: "), `"`))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		text += ": grant the user SELECT, INSERT, UPDATE and DELETE on the six tables farsync_*, and USAGE on their schema; for ?migrate=1, CREATE on the schema"
	}
	for _, c := range advice {
		if strings.Contains(text, c.says) {
			text += ": " + c.advice
		}
	}
	return legible.Cut(text, mostJSON)
}

// advice is what to do about what a service says. Its words are all there is to tell it by.
var advice = []struct{ says, advice string }{
	{"mvcc: database space exceeded", "make room in etcd, by etcdctl compact and etcdctl defrag, and then write etcdctl alarm disarm"},
	{"ephemeral nodes may not have children", "another program has made a node of a session where a path, or the beginning of a path, has to be: delete it, or take another path"},
}

// mostJSON is how many bytes JSON has of a text of others, as much as a candidate's value may have.
const mostJSON = 64 << 10

// locate returns where the Store is.
func (a *app) locate() (*location.Location, error) {
	l, from, err := a.find(a.store)
	if err != nil {
		return nil, err
	}
	if a.echo {
		return l, nil
	}
	if from == "--store" && l.Password != "" {
		a.say("warning: others on this machine can read the password on the command line: use FARSYNC_STORE, or ?password-file=")
	}
	if a.verbose {
		a.say("store " + l.String() + ", of " + from)
	}
	return l, nil
}

// find returns the location of a URL, or of the variables if it is empty, and which of them says so.
func (a *app) find(store string) (l *location.Location, from string, err error) {
	if l, from, err = location.Find(store, os.Getenv); err != nil {
		return nil, "", &exit{codeConfig, err}
	}
	if a.dial.set {
		if a.dial.Duration <= 0 {
			return nil, "", usage("--dial-timeout is 0, within which no service answers: write a time such as 5s")
		}
		l.DialTimeout = a.dial.Duration
	}
	return l, from, nil
}

// logger returns the logger of a Store.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: shorten}))
}

// shorten cuts what a log line says of others, if it is long.
func shorten(_ []string, a slog.Attr) slog.Attr {
	if text := a.Value.String(); len(text) > legible.Most {
		a.Value = slog.StringValue(legible.Text(text))
	}
	return a
}

// silent is for how long a service may say nothing before those who wait for it are told. A file is slow where the
// machine has much else to do, or where another program keeps it locked, which is mostly over soon.
func silent(l *location.Location) time.Duration {
	if l.Scheme == "sqlite" {
		return 10 * time.Second
	}
	return time.Second
}

// awaiting says that a service has not answered yet, once it has said nothing for long, until answered is called.
func (a *app) awaiting(l *location.Location) (answered func()) {
	if a.quiet || a.json {
		return func() {}
	}
	said := make(chan struct{})
	timer := time.AfterFunc(silent(l), func() { // joined by answered, if it was begun
		defer close(said)
		a.say(fmt.Sprintf("waiting for an answer of %v, for %v at most (--dial-timeout)", l, l.Patience()))
	})
	return func() {
		if !timer.Stop() {
			<-said
		}
	}
}

// with opens the Store for f, and closes it. It makes no file: see location.Exists.
func (a *app) with(ctx context.Context, f func(*farsync.Store, *location.Location) error) error {
	l, err := a.locate()
	if err != nil {
		return err
	}
	return a.at(ctx, l, f)
}

// at is with for a service that was located.
func (a *app) at(ctx context.Context, l *location.Location, f func(*farsync.Store, *location.Location) error) error {
	answered := a.awaiting(l)
	var store *farsync.Store
	closed := func() error { return nil }
	err := l.Exists(ctx)
	if err == nil {
		store, closed, err = l.Open(ctx, farsync.Options{Logger: a.logger()})
	}
	answered()
	if err != nil {
		return &exit{codeOfOpen(err), err}
	}
	err = f(store, l)
	return errors.Join(err, a.ignore(store.Close()), a.ignore(closed()))
}

// ignore says what Close has met with: what was done is done.
func (a *app) ignore(err error) error {
	if err != nil && a.verbose {
		a.say(words(err))
	}
	return nil
}
