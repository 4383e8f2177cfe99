package location

import (
	"context"
	cryptotls "crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	clientv3 "go.etcd.io/etcd/client/v3"
	grpccredentials "google.golang.org/grpc/credentials"
)

// Credentials are what a Location proves itself with, and whom it trusts, for a Store that lives for long. Each
// connection has what the files say when it is made. A file that cannot be used then, for it is being written, counts
// as it was when all of them were read last: what is wrong with that the service will say, and the next connection
// reads them again.
type credentials struct {
	from *Location
	log  *slog.Logger

	mu       sync.Mutex
	password string
	config   *cryptotls.Config // nil without TLS; never changed
}

// credentials reads the files that the Location names for the first time. The error is ErrConfig.
func (l *Location) credentials(log *slog.Logger) (*credentials, error) {
	password, config, err := l.secrets()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &credentials{from: l, log: log, password: password, config: config}, err
}

// now reads the files, and returns what they say. The config is the caller's, and nil without TLS.
func (c *credentials) now() (password string, config *cryptotls.Config) {
	password, config, err := c.from.secrets()
	if err == nil {
		c.mu.Lock()
		c.password, c.config = password, config
		c.mu.Unlock()
	} else {
		c.log.Warn("credentials cannot be read: those that were read before are used", "cause", err)
	}
	return c.last()
}

// last returns what the files said when all of them were read last. The config is the caller's, and nil without TLS.
func (c *credentials) last() (password string, config *cryptotls.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.password, c.config.Clone()
}

// dial makes a connection with TLS, for a client that has no other way to be told of new certificates.
func (c *credentials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, config := c.now()
	return (&cryptotls.Dialer{NetDialer: &net.Dialer{Timeout: connecting}, Config: config}).DialContext(ctx, network, address)
}

// connecting bounds how long one connection may take to be made, where no client does.
const connecting = 3 * time.Second

// A handshaker makes connections of gRPC with what the files say.
type handshaker struct {
	grpccredentials.TransportCredentials // with what they said first

	of *credentials
}

// ClientHandshake does what the handshake of credentials.NewTLS does.
func (h handshaker) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, grpccredentials.AuthInfo, error) {
	_, config := h.of.now()
	return grpccredentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone returns one with the same files.
func (h handshaker) Clone() grpccredentials.TransportCredentials {
	return handshaker{h.TransportCredentials.Clone(), h.of}
}

// An authenticator has etcd's client, which asks for a token with the password that it was made with, use what the file
// says.
type authenticator struct {
	clientv3.Auth

	of *credentials
}

// Authenticate asks for a token.
func (a authenticator) Authenticate(ctx context.Context, name, _ string) (*clientv3.AuthenticateResponse, error) {
	password, _ := a.of.now()
	return a.Auth.Authenticate(ctx, name, password)
}

// secrets reads the files that the Location names.
func (l *Location) secrets() (password string, config *cryptotls.Config, err error) {
	password = l.Password
	if l.PasswordFile != "" {
		text, err := readFile(l.PasswordFile)
		if err != nil {
			return "", nil, l.unusable("password-file", err)
		}
		password = strings.TrimRight(string(text), "\r\n")
		if password == "" {
			// Redis's client would not say who it is, and be the user default.
			return "", nil, l.unusable("password-file", fmt.Errorf("%s is empty: write the password in it", l.PasswordFile))
		}
		if strings.HasPrefix(password, "\ufeff") || strings.ContainsFunc(password, unicode.IsControl) {
			none := fmt.Errorf("%s has more than one line, or a character that no password has: write the password alone", l.PasswordFile)
			return "", nil, l.unusable("password-file", none)
		}
	}
	if !l.TLS {
		return password, nil, nil
	}
	config = &cryptotls.Config{MinVersion: cryptotls.VersionTLS12}
	if l.CACert != "" {
		text, err := readFile(l.CACert)
		if err != nil {
			return "", nil, l.unusable("cacert", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return "", nil, l.unusable("cacert", fmt.Errorf("%s has no certificate in PEM", l.CACert))
		}
	}
	if l.Cert != "" {
		pair, err := readPair(l.Cert, l.Key)
		if err != nil {
			return "", nil, l.unusable("cert and key", err)
		}
		config.Certificates = []cryptotls.Certificate{pair}
	}
	return password, config, nil
}

// readPair does what LoadX509KeyPair does.
func readPair(cert, key string) (cryptotls.Certificate, error) {
	public, err := readFile(cert)
	if err != nil {
		return cryptotls.Certificate{}, err
	}
	private, err := readFile(key)
	if err != nil {
		return cryptotls.Certificate{}, err
	}
	return cryptotls.X509KeyPair(public, private)
}

// readFile reads a file, or the file that a link leads to, as the links of a Secret of Kubernetes do. To open a pipe
// waits for a writer, whom no ctx bounds, and what was read of a pipe is not there for the next connection.
func readFile(name string) ([]byte, error) {
	is, err := os.Stat(name)
	switch {
	case err != nil: // as os.ReadFile says it
	case is.IsDir():
		return nil, fmt.Errorf("%s is a directory: write the path of a file in it", name)
	case !is.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a device or a pipe, which cannot be read anew for each connection: write the path of a file", name)
	}
	return os.ReadFile(name)
}
