package locktest

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Secured is an address of a server behind TLS, or of one without, with what a client has to connect to it.
type Secured struct {
	// Given says what is wrong; empty if nothing is.
	Given string
	// Host is host:port.
	Host string
	// TLS is the client's; nil if it uses none.
	TLS *tls.Config
	// Says is the essential part of the message, where it does not depend on the service.
	Says string
}

// Secure puts TLS before a server, in many ways, until t ends, and returns those which serve and those which must not.
// Protocols are what the server's TLS speaks, if that is told.
func Secure(t testing.TB, server string, protocols ...string) (right, wrong []Secured) {
	authority, other := NewAuthority(t), NewAuthority(t)
	trust := authority.Pool()
	front := func(name string, valid time.Duration, clients *x509.CertPool) string {
		config := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, name, valid)}, NextProtos: protocols}
		if clients != nil {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, clients
		}
		_, port, err := net.SplitHostPort(TLSFront(t, server, config))
		require.NoError(t, err)
		return "localhost:" + port
	}
	with := func(certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: trust, Certificates: certificates}
	}
	served, mutual := front("localhost", time.Hour, nil), front("localhost", time.Hour, trust)
	_, port, err := net.SplitHostPort(served)
	require.NoError(t, err)
	right = []Secured{{Host: served, TLS: with()}, {Host: mutual, TLS: with(authority.Issue(t, "me", time.Hour))}}
	return right, []Secured{
		{"a server of an unknown authority", served, &tls.Config{}, "signed by unknown authority"},
		{"a server by its address", "127.0.0.1:" + port, with(), "cannot validate certificate for 127.0.0.1"},
		{"a certificate for another name", front("elsewhere", time.Hour, nil), with(), "valid for elsewhere, not localhost"},
		{"a certificate that has expired", front("localhost", -time.Hour, nil), with(), "certificate has expired"},
		{"no certificate of the client", mutual, with(), "certificate required"},
		{"a client's certificate that has expired", mutual, with(authority.Issue(t, "me", -time.Hour)), "expired certificate"},
		{"a client's certificate of an unknown authority", mutual, with(other.Issue(t, "me", time.Hour)), "unknown certificate authority"},
		{"TLS to a server without", server, with(), ""},
		{"no TLS to a server with it", served, nil, ""},
		{"no TLS to a server that wants a certificate", mutual, nil, ""},
	}
}
