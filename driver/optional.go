package driver

import (
	"context"
	"errors"
	"time"
)

// Optional is the part of a Session that a driver can do without. A driver that embeds Unsupported has all of it, and
// overrides what its service can do. Since every Session has all methods, a Session that wraps another hides nothing.
type Optional interface {
	// Name is what Service.End knows the session by, and no other session ever has it. It may let a client speak for the
	// session, as a password does, so it is shown to nobody, in no log and no error. It is empty from a driver that cannot
	// end a session by a name; End is then not called. It does no I/O, and is the same for as long as the Session is
	// known.
	Name() string

	// Over is closed when the driver learns, without having been asked, that the session cannot be used any more. The
	// next Renew then says why. A driver that learns of it only from answers returns nil.
	Over() <-chan struct{}

	// Reset drops a connection that does not answer, so that the next attempt uses another. It may do nothing.
	Reset()

	// Tell leaves words with an entry, in place of earlier ones. ErrGone means that the entry is gone. Where other
	// programs' clients can be asked for an entry, words of one line may be told in theirs; words of several lines arrive
	// as they are.
	//
	// Lasts is true where the words stay when the entry is gone, until the session of Tell ends. The caller then takes
	// them back: no words at all remove the words that any session left with an entry that is gone, and no words that
	// were left with a later entry. A driver whose words go with their entry has no use for such a call, and may answer
	// ErrGone.
	Tell(ctx context.Context, e Entry, words string) (lasts bool, err error)

	// Heard returns the words that were left with an entry, of this session or another, or the empty string. ErrGone
	// means that the entry is gone.
	Heard(ctx context.Context, e Entry) (words string, err error)

	// Touch tells the head of a queue that it is its turn, whichever entry that is, and returns a View whose Turn is
	// false. If it is true, the head has gone meanwhile, say, and the caller calls Touch with that View. v is one of
	// Delete, or of Touch.
	Touch(ctx context.Context, v View) (View, error)

	// Survey returns entries of all queues whose path begins with prefix, queue by queue in the order of their paths,
	// beginning behind the queue after. It shows whole queues, and at least limit entries if there are as many. Of the
	// View Silent is set beside them, as by List. A queue which this client may not read, and which the service shows
	// all the same, hides no other. It is an Entry with an empty ID, whose Value says why, in words.
	Survey(ctx context.Context, prefix, after string, limit int) (View, error)

	// Outlast has the service keep the session until it runs out, also if the process dies and the service could tell
	// sooner. It returns nil once the service does, and does until Close. It may be called again. A driver whose service keeps
	// every session until it runs out has nothing to do.
	Outlast(ctx context.Context) error

	// History names the past of the service, as the last answer to Open or Renew has shown it. Another name means that the
	// service may have gone back to an earlier state, in which entries stand that were removed since: for example, a
	// replica that had not received all changes was promoted. It may change for no reason, but seldom. It is empty from a
	// driver whose service never goes back, or ends all earlier sessions when it does. Where History is not empty, Owned
	// takes nil for all queues. It does no I/O.
	History() string

	// Silence returns until when the service grants nothing, to any entry, as the last answer has shown it, and why
	// that is, in words for people. A service that was restarted does so, for one, so that all who held before can
	// stop. The time is zero if the service grants, and nothing holds before it otherwise. Silence does no I/O. A
	// driver whose service never does that returns the zero time.
	Silence() (until time.Time, why string)
}

// Unsupported is an Optional that can do nothing: Over returns nil, Name, History and Silence are empty, Reset, Touch and
// Outlast do nothing, and all other methods return an error that wraps errors.ErrUnsupported.
var Unsupported Optional = unsupported{}

type unsupported struct{}

func (unsupported) Name() string { return "" }

func (unsupported) Over() <-chan struct{} { return nil }

func (unsupported) Reset() {}

func (unsupported) History() string { return "" }

func (unsupported) Silence() (until time.Time, why string) { return until, "" }

func (unsupported) Tell(context.Context, Entry, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func (unsupported) Heard(context.Context, Entry) (string, error) { return "", errors.ErrUnsupported }

func (unsupported) Outlast(context.Context) error { return nil }

func (unsupported) Touch(context.Context, View) (View, error) { return View{}, nil }

func (unsupported) Survey(context.Context, string, string, int) (View, error) {
	return View{}, errors.ErrUnsupported
}
