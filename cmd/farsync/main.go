// Command farsync runs programs under locks that hold across machines, and shows what holds and what waits. docs/COMMAND.md
// is its manual.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
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
	var e *exit
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &e): // cobra's own, about the arguments
		e = &exit{codeUsage, err}
	}
	switch {
	case e.err != nil && a.json:
		line, _ := json.Marshal(errorJSON{1, words(e.err), e.code}) // cannot fail
		fmt.Fprintf(stderr, "%s\n", line)
	case e.err != nil:
		a.say(words(e.err))
	}
	return e.code
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
	voice          *voice // behind stderr, in the verbs that hold a lock
	die            func() // is called before this process exits, and may not return: a signal has ended what it did
}

// root returns the command with all its verbs, each in a file of its name.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "farsync",
		Short: "Run programs under locks that hold across machines",
		Long: "farsync runs programs under locks that hold across machines, and shows what holds and what waits.\n" +
			"The locks are on etcd, ZooKeeper, Redis, PostgreSQL or MySQL, or for one machine in a file.\n\n" + environmentHelp + "\n" + exitHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usage("which verb? farsync --help lists them")
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	flags := root.PersistentFlags()
	flags.StringVar(&a.store, "store", "", "the `URL` of the service: "+location.Forms)
	flags.Var(&a.dial, "dial-timeout", "give up, with 69, when the service has not answered for so long at the start (default 30s)")
	flags.BoolVar(&a.json, "json", false, "write JSON, one object a line, for programs")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing while waiting")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "log what happens to sessions and locks")
	root.AddCommand(a.verbs()...)
	return root
}

const environmentHelp = `The store is that of --store, or of FARSYNC_STORE, or what ETCDCTL_ENDPOINTS and the other variables of etcdctl
name. There is no default.

  etcd://[USER:PASSWORD@]HOST[:2379][,HOST…][/PREFIX][?ttl=10s&cacert=FILE&…]
  zk://[USER:PASSWORD@]HOST[:2181][,HOST…][/PREFIX][?…]
  redis://[USER:PASSWORD@]HOST[:6379][/PREFIX][?…]
  postgres://USER[:PASSWORD]@HOST[:5432]/DATABASE[?…]
  mysql://[USER[:PASSWORD]@]HOST[:3306]/DATABASE[?…]
  sqlite:FILE[?…]
`

// say writes a line for people.
func (a *app) say(text string) { fmt.Fprintln(a.stderr, "farsync:", text) }

// words are those of an error, which may begin with farsync by itself.
func words(err error) string { return strings.TrimPrefix(err.Error(), "farsync: ") }

// locate returns where the Store is.
func (a *app) locate() (*location.Location, error) {
	l, from, err := location.Find(a.store, os.Getenv)
	if err != nil {
		return nil, &exit{codeConfig, err}
	}
	if a.dial.set {
		if a.dial.Duration <= 0 {
			return nil, usage("--dial-timeout is 0")
		}
		l.DialTimeout = a.dial.Duration
	}
	if from == "--store" && l.Password != "" {
		a.say("warning: others on this machine can read the password on the command line: use FARSYNC_STORE, or ?password-file=")
	}
	if a.verbose {
		a.say("store " + l.String() + ", of " + from)
	}
	return l, nil
}

// logger is that of a Store.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with opens the Store for f, and closes it.
func (a *app) with(ctx context.Context, f func(*farsync.Store, *location.Location) error) error {
	l, err := a.locate()
	if err != nil {
		return err
	}
	store, closed, err := l.Open(ctx, farsync.Options{Logger: a.logger()})
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
