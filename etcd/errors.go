package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
)

var (
	errEnded     = errors.New("the session has ended")
	errExpired   = errors.New("the server does not know the session's lease: it expired or was revoked")
	errRepeated  = errors.New("it was sent before, and not answered")
	errAvoided   = errors.New("the member owes another answer")
	errUnsent    = errors.New("the request was not sent")
	errThere     = errors.New("the entry is there already")
	errStood     = errors.New("the entry that had the key before stood again, and was deleted")
	errOtherwise = errors.New("the entry is there already, or the queue is not as expected")
	errStray     = errors.New("it would block the queue for ever; delete it if nothing needs it")
	errSilent    = errors.New("the watch stream is silent")
	errWatchOver = errors.New("the watch ended")
)

// stray refuses a queue with an entry that nothing will ever remove.
func stray(e driver.Entry) error {
	return fmt.Errorf("key %s has no lease: %w", legible.Quote(e.ID), errStray)
}

// The errors that tell by themselves what became of an attempt. An error of the connection tells nothing: the request
// may have been sent, and a member that has taken it may still propose it. Neither does ErrTimeout, nor
// ErrLeaderChanged: the request was proposed, and may be committed by the next leader.
var (
	expired = []error{errEnded, errExpired, rpctypes.ErrLeaseNotFound}
	// refused are the driver's own answers, which it gives to a comparison that is false.
	refused = []error{driver.ErrGone, driver.ErrConflict, errors.ErrUnsupported, errStray}
	// notDone are the answers of a server that has not proposed the request, or that has not carried it out because of
	// something that passes.
	notDone = []error{
		errUnsent,
		errStood,
		rpctypes.ErrNoLeader,         // the door: the request requires a leader
		rpctypes.ErrTooManyRequests,  // the queue of proposals is full
		rpctypes.ErrInvalidAuthToken, // looked at before the proposal
		rpctypes.ErrAuthFailed,       // likewise: the client has asked for a token. A password is changed at the server and at the client at two moments
		rpctypes.ErrAuthOldRevision,  // looked at when it is carried out, before anything is
		rpctypes.ErrCompacted,        // of the later pages of a survey: it is made anew
	}
	// refusals are the codes of a definite no of the server, or of a gateway or proxy before it that has not let the
	// request pass. Of ResourceExhausted there is one case that settle looks at: the quota.
	refusals = []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.ResourceExhausted,
	}
)

// Outcome tells what a server has answered from what it may still carry out. Whatever is not listed is Unknown. A
// closed client comes first, for every error then stems from it. The end of the session comes before what is known of
// the attempt, whose entry goes with the session.
func (s *service) Outcome(err error) driver.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	code := status.Code(err)
	if typed, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = typed.Code()
	}
	_, login := errors.AsType[loginError](err)
	switch {
	case s.client.Ctx().Err() != nil:
		return driver.Closed
	case login:
		return driver.Refused
	case slices.ContainsFunc(expired, is):
		return driver.Expired
	case slices.ContainsFunc(notDone, is), s.early(err):
		return driver.NotDone
	case slices.ContainsFunc(refused, is), slices.Contains(refusals, code):
		return driver.Refused
	default:
		return driver.Unknown
	}
}

// A loginError is the error of an Open where the server does not know the user by that password. No session lives yet
// that would be lost.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }

// early reports whether a request was refused because the client, which has a user, had no token yet: authentication
// was switched on a moment ago.
func (s *service) early(err error) bool {
	return errors.Is(err, rpctypes.ErrUserEmpty) && s.client.Username != ""
}

// explain returns why an attempt to open a session has had no answer, with what may be behind it where that is not
// plain. gRPC tells why a connection fails in its text alone. Answers of etcd come back as they are.
func explain(err error) error {
	_, answer := errors.AsType[rpctypes.EtcdError](err)
	if c := status.Code(err); answer || c != codes.Unavailable && c != codes.DeadlineExceeded {
		return err
	}
	// Such as: connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:2379: connect: connection
	// refused"
	text := status.Convert(err).Message()
	if _, quoted, ok := strings.Cut(text, "connection error: desc = "); ok {
		if why, err := strconv.Unquote(quoted); err == nil {
			text = strings.TrimPrefix(strings.TrimPrefix(why, "transport: "), "Error while dialing: ")
		}
	}
	for _, row := range hints {
		if row.of.MatchString(text) {
			return errors.New(row.of.ReplaceAllString(text, row.says))
		}
	}
	return errors.New(text)
}

// hints are what explain says of a text, by the first row that fits.
var hints = []struct {
	of   *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`.*handshake failed: .*(EOF|connection reset|broken pipe).*`), "$0; does the server speak TLS on this port?"},
	{regexp.MustCompile(`.*(EOF|connection reset|broken pipe).*`), "$0; if the server speaks TLS, its endpoint begins with https://, and it may want a certificate"},
	{regexp.MustCompile(`.*server preface: http2.*`), "$0; is it etcd's port for clients?"},
	{regexp.MustCompile(`.*connections to become ready.*`), "no connection in time: what listens there, if anything does, says nothing"},
	{regexp.MustCompile(`.*context deadline exceeded.*`), "connected, and no answer in time"},
}

// login is what an endpoint, which is a URL, may have of a user and a password.
var login = regexp.MustCompile(`^.*@`)

// shown returns the client's endpoints for a text.
func shown(endpoints []string) string {
	list := slices.Clone(endpoints)
	for i, endpoint := range list {
		list[i] = cmp.Or(login.ReplaceAllString(endpoint, "…@"), `""`)
	}
	return strings.Join(list, ", ")
}

// allowed adds to a refusal of etcd's whose permission is missing, and which.
func (s *service) allowed(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrUserEmpty) && !s.early(err):
		return fmt.Errorf("%w: the client has no Username, and authentication is on", err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: user %q needs READWRITE on a prefix of the path that ends in a slash", err, s.client.Username)
	default:
		return err
	}
}
