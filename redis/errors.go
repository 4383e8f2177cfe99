package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
)

// A failure is an error together with the outcome of its request.
type failure struct {
	error
	outcome driver.Outcome
}

func (f *failure) Unwrap() error { return f.error }

func failed(outcome driver.Outcome, words string) error { return &failure{errors.New(words), outcome} }

// undialed is the error of a connection that could not be made.
func undialed(address string, err error) error {
	return &failure{fmt.Errorf("connect to %s: %w", address, err), driver.NotDone}
}

// isLogin reports whether the server or the client did not accept what the other has proved itself with. While a
// session lives the attempt is made again, for who rotates credentials tells the server and the client at two moments.
func isLogin(err error) bool {
	_, unproven := errors.AsType[*tls.CertificateVerificationError](err)
	alert, _ := errors.AsType[*net.OpError](err)
	return unproven || alert != nil && alert.Op == "remote error" || // of TLS: the server does not let this client in
		slices.ContainsFunc(logins, func(word string) bool { return client.HasErrorPrefix(err, word) })
}

// explained adds to an error that says no more than that the server has closed a connection at once why servers do, and
// to one about a command which version has it.
func explained(err error) error {
	if client.HasErrorPrefix(err, notKnown) {
		return fmt.Errorf("%w: version 7 or newer of Redis is needed", err)
	}
	for _, cause := range []error{io.EOF, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w: the server closes the connection: it may want TLS, be in protected mode, or have too many clients", err)
		}
	}
	return err
}

// notDone is the error of an attempt that ended with ctx before anything was sent.
func notDone(ctx context.Context) error { return &failure{context.Cause(ctx), driver.NotDone} }

var (
	errExpired = failed(driver.Expired, "the session is not in Redis any more: it ran out, or the server was restarted or replaced")
	errEnded   = failed(driver.Expired, "the session was closed or dropped")
	errKind    = failed(driver.Refused, "only a write entry can be replaced by one of another kind, a read entry")
	errStray   = failed(driver.Refused, "its session is not in Redis: remove the entry if nothing needs it")
	errForeign = failed(driver.Refused, "another program has put a key of another type there: delete it if nothing needs it")
	errText    = failed(driver.Refused, "another program has put a text there that is no number of farsync's: delete it if nothing needs it")
	errLarge   = failed(driver.Refused, "redis counts up to 9007199254740991 units, and the semaphore has more")
	errCommand = failed(driver.Refused, "NOPERM this user has no permissions to run the command in a script, or for the keys of the namespace")
	errReplica = failed(driver.NotDone, "the server is a replica: locks are taken at its master")
	errUnknown = failed(driver.NotDone, "the server does not know the script although it was given it")
	errTorn    = errors.New("a part of a message was lost")
	errAnswer  = errors.New("an answer that is none of farsync's script: other versions of farsync may use the namespace")
)

// words are the errors that the first word of an answer stands for.
var words = map[string]error{
	"ok": nil, "unknown": errUnknown, "session": errExpired, "gone": driver.ErrGone, "conflict": driver.ErrConflict,
	"kind": errKind, "stray": errStray, "foreign": errForeign, "text": errText, "large": errLarge, "command": errCommand,
}

// Redis gives these answers before it has carried out anything of a script. When a script breaks in the middle, nobody
// knows what it has done. So other answers are Unknown, and so is an answer with the words brokenOff.
var (
	refusals = []string{"NOPERM", "OOM", "MISCONF", "DB index", notKnown}
	logins   = []string{"NOAUTH", "WRONGPASS", "DENIED", "invalid password"}
	tryAgain = []string{
		"LOADING", "READONLY", "NOREPLICAS", "BUSY", "MASTERDOWN", "max number of clients",
		"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN",
	}
)

// brokenOff stands in what Redis 7.2 and newer answer where a command in a script is refused to the user. It begins
// like a refusal.
const brokenOff = "ACL failure in script"

// notKnown begins what a server answers that is older than a command, or that was told to forget it.
const notKnown = "unknown command"

// Outcome tells what was certainly not carried out. Whatever is not listed is Unknown.
func (s *service) Outcome(err error) driver.Outcome {
	begins := func(word string) bool { return client.HasErrorPrefix(err, word) }
	told, _ := errors.AsType[*failure](err)
	switch {
	case told != nil:
		return told.outcome
	case err != nil && strings.Contains(err.Error(), brokenOff):
		return driver.Unknown
	case errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrConflict), slices.ContainsFunc(refusals, begins):
		return driver.Refused
	case isLogin(err), errors.Is(err, client.ErrClosed), errors.Is(err, client.ErrPoolTimeout),
		errors.Is(err, client.ErrPoolExhausted), slices.ContainsFunc(tryAgain, begins):
		return driver.NotDone
	}
	return driver.Unknown
}
