package locktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Refusing returns an address at which no server listens until t ends. A client of a connection has
// this address, so that no other test has a server listen there.
func Refusing(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}

// Speaking returns the address of a server that accepts, says that, and nothing more until t ends.
func Speaking(t testing.TB, words string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serve(t, listener, func(conn net.Conn) {
		_, _ = io.WriteString(conn, words)
		_, _ = io.Copy(io.Discard, conn)
	})
}

// TLSFront returns the address of a server that takes TLS off and passes on what is in it to the target, until t ends.
func TLSFront(t testing.TB, target string, config *tls.Config) string {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	return serve(t, listener, func(from net.Conn) {
		conn := from.(*tls.Conn)
		if err := conn.Handshake(); err != nil {
			if _, plain := errors.AsType[tls.RecordHeaderError](err); !plain {
				_, _ = io.Copy(io.Discard, conn.NetConn()) // or a reset would overtake what was said to the client
			}
			return
		}
		to, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(from, to)
			_ = from.Close()
		})
		_, _ = io.Copy(to, from)
		_ = to.Close()
		back.Wait()
	})
}

// serve has each connection handled in a goroutine of its own, and closed after that. When t ends, all are closed and
// joined.
func serve(t testing.TB, listener net.Listener, handle func(net.Conn)) (address string) {
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done := make(chan struct{})
			all.Go(func() {
				defer close(done)
				handle(conn)
				_ = conn.Close()
			})
			all.Go(func() {
				select {
				case <-done:
				case <-over:
					_ = conn.Close()
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(over)
		all.Wait()
	})
	return listener.Addr().String()
}

// An Authority issues certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no other trusts.
func NewAuthority(t testing.TB) Authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return Authority{certificate, key}
}

// Pool returns a pool that trusts this authority alone.
func (a Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Text returns its own certificate as PEM.
func (a Authority) Text() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Issue returns a certificate for a name, or an address, that is valid for so long, and of an hour ago if that is
// negative.
func (a Authority) Issue(t testing.TB, name string, valid time.Duration) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
