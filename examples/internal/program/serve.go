//go:build unix

package program

import (
	"net"
	"net/http"
)

// Serve serves HTTP at a free port of this machine, until it is closed.
func Serve(handler http.Handler) (url string, closed func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server, served := &http.Server{Handler: handler}, make(chan struct{})
	go func() { // joined by closed
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	return "http://" + listener.Addr().String(), func() {
		_ = server.Close()
		<-served
	}, nil
}
