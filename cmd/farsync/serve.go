package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/live"
	"github.com/farsync/farsync/recipe"
)

func (a *app) serveVerb() *cobra.Command {
	listen, change, trace := "127.0.0.1:7070", false, ""
	cmd := &cobra.Command{
		Use:   "serve [PREFIX/]",
		Short: "Show who holds and who waits in a browser",
		Long: `serve shows in a browser who holds and who waits below PREFIX/, or on all paths, as it changes. It ends with a signal.

With --allow-break it writes a line to standard error whenever a lock is asked for or a lease is broken: by whom, and why.

It asks for no password. Unless --listen says otherwise, it answers this machine alone; and it answers only requests for the
host of --listen, for localhost, and for IP addresses, so that no page of another site can read it by a name that it has made.
To show it to others, put it behind a server that knows them, or mount package live in a program of your own.`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			prefix := "/"
			if len(arguments) == 1 {
				prefix = arguments[0]
			}
			if below, found := strings.CutSuffix(prefix, "/"); !found {
				return &exit{codeData, fmt.Errorf("%s is no prefix, which ends with a slash: write %[1]s/", legible.Text(prefix))}
			} else if below != "" {
				if err := recipe.CheckPath(below); err != nil {
					return &exit{codeData, err}
				}
			}
			if err := checkAddress(listen); err != nil {
				return err
			}
			to, err := traceURL(trace)
			if err != nil {
				return err
			}
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			return a.with(ctx, func(store *farsync.Store, l *location.Location) error {
				return a.serve(ctx, store, l, prefix, listen, &live.Options{
					Logger: a.changes(), Allow: func(*http.Request) bool { return change }, TraceURL: to,
				})
			})
		},
	}
	cmd.Flags().Var(text{&listen, "ADDRESS"}, "listen", "where to answer; port 0 is any that is free")
	cmd.Flags().BoolVar(&change, "allow-break", false, "let all who can reach the page ask for locks and break leases")
	cmd.Flags().Var(text{&trace, "URL"}, "trace-url", "link notes that are traceparents to it, with the trace's ID in place of {trace}")
	return cmd
}

// changes is where serve logs who has changed what, always. It is no business of -v, for nothing else tells.
func (a *app) changes() *slog.Logger {
	if log := a.logger(); log != nil {
		return log
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// checkAddress refuses what no machine could listen at.
func checkAddress(listen string) error {
	_, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port) //nolint:noctx // it reads a file
	}
	if err != nil {
		return usage("--listen %s: write HOST:PORT, as 127.0.0.1:7070 or localhost:0", legible.Text(listen))
	}
	return nil
}

// traceURL returns what puts the ID of a trace into a URL of http or https; nil if there is none.
func traceURL(template string) (func(trace string) string, error) {
	if template == "" {
		return nil, nil
	}
	const place = "{trace}"
	fill := func(trace string) string { return strings.ReplaceAll(template, place, trace) }
	to, err := url.Parse(fill("0"))
	switch {
	case err != nil, to.Scheme != "http" && to.Scheme != "https", to.Host == "", !strings.Contains(template, place):
		return nil, usage("--trace-url is none: write an http or https URL with %[1]s in it, as https://jaeger.example.com/trace/%[1]s", place)
	}
	return fill, nil
}

// leaving is how long serve waits for viewers to go.
const leaving = 2 * time.Second

func (a *app) serve(ctx context.Context, store *farsync.Store, l *location.Location, prefix, listen string, o *live.Options) error {
	view := live.New(o)
	view.Add(l.Scheme, store, l.Join(prefix))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return &exit{codeUnavailable, fmt.Errorf("--listen %s: %w: write another address", legible.Text(listen), err)}
	}
	server := serverOf(onlyFor(listen, view))
	server.RegisterOnShutdown(func() { _ = view.Close() })
	stopped := make(chan struct{})
	end := context.AfterFunc(ctx, func() { // joined below, if it was begun
		defer close(stopped)
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
		defer cancel()
		if server.Shutdown(bound) != nil {
			_ = server.Close()
		}
	})
	a.say("the page is http://" + listener.Addr().String() + "/")
	err = server.Serve(listener)
	if end() {
		return &exit{codeUnavailable, err}
	}
	<-stopped
	return nil
}

// serverOf returns a server that waits for no client without a bound. The View sets the deadlines of its own requests;
// what is here is for all that is not within one, and for requests that are refused before the View.
func serverOf(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// onlyFor refuses requests for hosts of other names. A name that another site has had resolved to this machine's
// address would make the page a part of that site, for a browser.
func onlyFor(listen string, handler http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(listen) // it was listened at
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && host != "localhost" && (own == "" || !strings.EqualFold(host, own)) {
			http.Error(w, "this page is not for requests by the name "+host, http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
