// Package handshake guards the TLS handshakes of a driver from functions of the program that panic.
package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"

	"github.com/farsync/farsync/internal/aside"
)

// Guard returns a copy of a TLS configuration, or nil for nil. Where a function of the copy panics, the handshake fails,
// and the client closes the connection. A panic that went through the client would leave the connection open.
func Guard(log *slog.Logger, c *tls.Config) *tls.Config {
	c = c.Clone()
	if c == nil {
		return nil
	}
	if peer := c.VerifyPeerCertificate; peer != nil {
		c.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			return aside.Safely(log, "VerifyPeerCertificate", func() error { return peer(raw, chains) })
		}
	}
	if verify := c.VerifyConnection; verify != nil {
		c.VerifyConnection = func(state tls.ConnectionState) error {
			return aside.Safely(log, "VerifyConnection", func() error { return verify(state) })
		}
	}
	if certificate := c.GetClientCertificate; certificate != nil {
		c.GetClientCertificate = func(info *tls.CertificateRequestInfo) (with *tls.Certificate, err error) {
			err = aside.Safely(log, "GetClientCertificate", func() error { with, err = certificate(info); return err })
			return with, err
		}
	}
	return c
}
