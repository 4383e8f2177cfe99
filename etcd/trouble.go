package etcd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explain returns why an attempt to open a session has had no answer, with what may be behind it where that is not plain.
// gRPC tells why a connection fails in its text alone. Answers of etcd come back as they are.
func explain(err error) error {
	_, answer := errors.AsType[rpctypes.EtcdError](err)
	if c := status.Code(err); answer || c != codes.Unavailable && c != codes.DeadlineExceeded {
		return err
	}
	// Such as: connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:2379: connect: connection refused"
	text := status.Convert(err).Message()
	if _, quoted, ok := strings.Cut(text, "connection error: desc = "); ok {
		if why, err := strconv.Unquote(quoted); err == nil {
			text = strings.TrimPrefix(strings.TrimPrefix(why, "transport: "), "Error while dialing: ")
		}
	}
	has := func(part string) bool { return strings.Contains(text, part) }
	switch hungUp := has("EOF") || has("connection reset") || has("broken pipe"); {
	case has("handshake failed") && hungUp:
		text += "; does the server speak TLS on this port?"
	case hungUp:
		text += "; if the server speaks TLS, its endpoint begins with https://, and it may want a certificate"
	case has("server preface: http2"):
		text += "; is it etcd's port for clients?"
	case has("connections to become ready"):
		text = "no connection in time: what listens there, if anything does, says nothing"
	case status.Code(err) == codes.DeadlineExceeded:
		text = "connected, and no answer in time"
	}
	return errors.New(text)
}

// shown returns the client's endpoints for a text. An endpoint is a URL, which may have a password.
func shown(endpoints []string) string {
	var list []string
	for _, endpoint := range endpoints {
		if i := strings.LastIndexByte(endpoint, '@'); i >= 0 {
			endpoint = "…" + endpoint[i:]
		}
		if endpoint == "" {
			endpoint = `""`
		}
		list = append(list, endpoint)
	}
	return strings.Join(list, ", ")
}

// allowed adds to a refusal of etcd's whose permission is missing, and which. The client hands on why a watch was refused as
// a text, which would pass for trouble on the way: the waiter would set it up again and again.
func (s *service) allowed(err error) error {
	if err != nil && err.Error() == rpctypes.ErrGRPCPermissionDenied.Error() {
		err = rpctypes.ErrPermissionDenied
	}
	switch {
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w: the client has no Username, and authentication is on", err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: user %q needs READWRITE on a prefix of the path that ends in a slash", err, s.client.Username)
	default:
		return err
	}
}
