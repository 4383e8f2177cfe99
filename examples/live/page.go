//go:build unix

package main

import (
	"net/http"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
	"github.com/farsync/farsync/live"
)

// servePage serves a page with the locks of a Store below a prefix, at a free port of this machine.
func servePage(name string, store *farsync.Store, prefix string) (url string, closed func(), err error) {
	view := live.New(&live.Options{
		// All that can reach this machine's own address may break leases here. A program has to look at who it is.
		Allow: func(*http.Request) bool { return true },
	})
	view.Add(name, store, prefix)
	mux := http.NewServeMux()
	mux.Handle("/debug/farsync/", view)
	url, stop, err := program.Serve(mux)
	if err != nil {
		return "", nil, err
	}
	return url + "/debug/farsync/", func() {
		_ = view.Close() // the streams of its viewers
		stop()
	}, nil
}
