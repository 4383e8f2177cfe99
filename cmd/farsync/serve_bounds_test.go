package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A listener accepts the connections that it is given, until the channel is closed.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
func (listener) Close() error   { return nil }

// A watched connection tells when it is closed.
type watched struct {
	net.Conn

	closed func()
}

func (w watched) Close() error {
	w.closed()
	return w.Conn.Close()
}

// TestServeWaitsForNoClient without a bound, whatever it does not do.
func TestServeWaitsForNoClient(t *testing.T) {
	handler := onlyFor("127.0.0.1:7070", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the page")
	}))
	for what, c := range map[string]struct {
		send  string
		read  bool
		after time.Duration
	}{
		"nothing is sent":            {"", false, 10 * time.Second},
		"a part of a header":         {"GET / HTTP/1.1\r\nHost: loc", false, 10 * time.Second},
		"the answer is not read":     {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", false, 10 * time.Second},
		"the refusal is not read":    {"GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n", false, 10 * time.Second},
		"no other request is made":   {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", true, time.Minute},
		"a header that does not end": {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 32<<10), false, 10 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, end := net.Pipe()
				closed := make(chan struct{})
				conns := make(listener, 1)
				conns <- watched{end, sync.OnceFunc(func() { close(closed) })}
				server := serverOf(handler)
				served := make(chan error)
				go func() { served <- server.Serve(conns) }() // joined below
				begun := time.Now()
				go func() { _, _ = io.WriteString(client, c.send) }() // it ends with the connection
				if c.read {
					response, err := http.ReadResponse(bufio.NewReader(client), nil)
					require.NoError(t, err)
					text, err := io.ReadAll(response.Body)
					require.NoError(t, err)
					require.Equal(t, "the page", string(text))
				}
				select {
				case <-closed:
					require.InDelta(t, c.after, time.Since(begun), float64(time.Second))
				case <-time.After(time.Hour):
					require.Fail(t, "the connection is still there")
				}
				close(conns)
				require.ErrorIs(t, <-served, net.ErrClosed)
				require.NoError(t, client.Close())
			})
		})
	}
}
