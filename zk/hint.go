package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// hint returns why there is no connection, with what may be behind it where that is not plain.
func hint(why error) error {
	switch {
	case hungUp(why):
		return fmt.Errorf("%w: the server hangs up; it wants TLS or a certificate, has no quorum, or has too many clients of this address", why)
	case errors.Is(why, errFrame):
		return fmt.Errorf("%w; is it ZooKeeper?", why)
	default:
		return why
	}
}

// hungUp reports whether the other side has closed the connection without a word.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

var (
	// errPlain is the error of a handshake that the server has not understood.
	errPlain = errors.New("TLS handshake: the server hangs up; does it speak TLS on this port?")
	// errMute is the error of a handshake that the server has not answered.
	errMute = errors.New("TLS handshake: no answer in time")
)

// dialTLS dials with TLS.
func dialTLS(config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
		switch {
		case hungUp(err):
			err = errPlain
		case err != nil && ctx.Err() != nil:
			err = errMute
		}
		return conn, err
	}
}

// withoutPassword returns what may be shown of something that should be a server: a URL may have a password.
func withoutPassword(server string) string {
	if i := strings.LastIndexByte(server, '@'); i >= 0 {
		return "…" + server[i:]
	}
	return server
}
