//go:build unix

package program

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
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

// Post sends the form. An answer other than OK is an error.
func Post(ctx context.Context, to string, form url.Values) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to+"?"+form.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s refuses %v: %s", to, form, response.Status)
	}
	_ = response.Body.Close()
	return err
}
