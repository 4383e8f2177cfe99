package live

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/recipe"
)

// Options change what a View shows and allows. The zero value of each field is a good choice.
type Options struct {
	// Interval is how much time there is at least between the beginnings of two surveys. The default, and the least, is a
	// second.
	Interval time.Duration
	// Limit is how many holders and waiters of each Store are shown at most, and how many KiB of their texts. It is
	// exceeded by what is left of the last path. The default is 5,000. A survey ends there, but on etcd, where the order
	// of keys is not the order of paths, it has read all that is below a prefix by then: narrower prefixes make it
	// cheaper, a lower limit does not.
	Limit int
	// Allow reports whether the client that has sent the request may ask for locks and break leases. It has to decide by
	// what proves who that is, a session of the user's own for example. If it is nil nothing can be changed. Requests that
	// pages of other sites have sent are refused before it is asked.
	Allow func(*http.Request) bool
	// TraceURL returns the address at which the trace with that ID, 32 hexadecimal digits, is shown:
	//
	//	func(trace string) string { return "https://jaeger.example.com/trace/" + trace }
	//
	// With it the note of a holder or waiter links to the trace that it names, if it is a traceparent, as package
	// otelfarsync publishes them. A result that is no http or https URL makes no link. It is called with each survey, and
	// must return soon.
	TraceURL func(trace string) string
	// Logger receives a line for each lock that was asked for and each lease that was broken, with its token and the
	// reason that was given, and one with the cause for each attempt that failed. Each has the address of the client,
	// the name that it gives by HTTP's Basic authentication, which nothing here checks, and what X-Forwarded-User and
	// X-Forwarded-For say. Nothing is logged if it is nil.
	Logger *slog.Logger
}

const (
	leastInterval = time.Second
	defaultLimit  = 5000
	// mostViewers is how many streams there are at a time.
	mostViewers = 64
	// turn is how long a stream keeps its place where a newcomer wants it. Whether a client reads cannot be told: its
	// system accepts what it is sent, and so does a proxy.
	turn = time.Minute
)

// A View is an http.Handler that serves a page. All methods may be called at any time by any goroutine.
type View struct {
	options Options
	handler http.Handler
	closed  chan struct{}
	// hello is the first message of a stream, and helloAllowed that to a client who may change something.
	hello, helloAllowed message

	mu      sync.Mutex
	sources []*source
	viewers int           // who wait for what is shown: streams, and requests for snapshots
	streams []*seat       // the oldest first. Invariant: at most mostViewers
	poller  *poller       // the poller that was started last, or nil
	next    time.Time     // when the next survey may begin
	shown   *frame        // what the last survey has shown; nil until there is a survey that is not too old
	changed chan struct{} // closed when shown is another
	unseen  *time.Timer   // calls forget; nil until a viewer has left, and stopped while there is one

	memory  memory
	callers callers
	alarms  alarms // the poller's: there is one at a time, and the next begins when the poller before has ended
}

// A seat is the place of a stream.
type seat struct {
	since time.Time
	over  chan struct{} // closed when the stream has to give way
}

// A source is a Store with the prefixes of the paths to show.
type source struct {
	name     string
	store    *farsync.Store
	prefixes []string
}

// A poller surveys until it is canceled. The viewer that leaves last cancels and joins it.
type poller struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a View without Stores. It starts nothing.
func New(o *Options) *View {
	if o == nil {
		o = &Options{}
	}
	v := &View{options: *o, closed: make(chan struct{}), changed: make(chan struct{}), alarms: alarms{}}
	v.callers = callers{all: map[*call]struct{}{}, held: map[lease][]*call{}}
	v.options.Interval = max(v.options.Interval, leastInterval)
	if v.options.Limit <= 0 {
		v.options.Limit = defaultLimit
	}
	v.memory = memory{limit: v.options.Limit, locks: map[gone]*past{}}
	if v.options.Logger == nil {
		v.options.Logger = slog.New(slog.DiscardHandler)
	}
	v.hello, v.helloAllowed = helloOf(false), helloOf(true)
	v.handler = v.routes()
	return v
}

func helloOf(allowed bool) message {
	return messageOf("hello", encode(map[string]any{"schema": schema, "allowed": allowed}))
}

// Add has the View show the paths of a Store that begin with one of the prefixes; all of them if there is none. The
// name is shown beside them. The Store stays the caller's, to be closed after the View. Add panics if the name is empty
// or was added before, and if no path can begin with a prefix.
func (v *View) Add(name string, store *farsync.Store, prefixes ...string) {
	if name == "" || store == nil {
		panic("live: Add: no name, or no Store")
	}
	if len(prefixes) == 0 {
		prefixes = []string{"/"}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.source(name) != nil {
		panic("live: Add: " + name + " was added before")
	}
	s := &source{name: name, store: store}
	for _, prefix := range prefixes {
		if err := recipe.CheckPrefix(prefix); err != nil {
			panic("live: Add: " + err.Error())
		}
		s.prefixes = append(s.prefixes, cmp.Or(prefix, "/"))
	}
	v.sources = append(v.sources, s)
}

// source returns the source of that name, or nil. The caller holds mu.
func (v *View) source(name string) *source {
	for _, s := range v.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// Close ends the streams of all viewers, and has all later requests answered with 503, but those for the files of the
// page, which says that there is no connection. It does not wait for requests that are under way: a lease may still be
// broken by one. A server that shuts down waits for streams: give Close to its RegisterOnShutdown. A client who does
// not read its answer keeps it waiting for 10 seconds at most.
func (v *View) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.closed:
	default:
		close(v.closed)
	}
	return nil
}

// ServeHTTP implements http.Handler. It looks at what follows the last slash of the path alone, so it may be mounted
// anywhere, with http.StripPrefix or without.
//
// It sets the deadlines of each of its requests, in place of the server's ReadTimeout and WriteTimeout: a client has 10
// seconds to accept an answer, or an event of a stream, and 10 to send a form. So it does behind a ResponseWriter of
// somebody else that has an Unwrap. How long a client may take for the headers of a request, how long a connection may
// have none, and how many connections there are, is the server's to bound.
func (v *View) ServeHTTP(w http.ResponseWriter, r *http.Request) { v.handler.ServeHTTP(w, r) }

var (
	errClosed = errors.New("the view is closed")
	errCrowd  = errors.New("too many viewers")
)

// enter counts a viewer in, and the place of its stream, or nil. The first starts the poller. The caller calls leave,
// which returns when the poller has ended if no other viewer is there.
func (v *View) enter(stream *seat) (leave func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.closed:
		return nil, errClosed
	default:
	}
	if stream != nil {
		if len(v.streams) == mostViewers {
			oldest := v.streams[0]
			if time.Since(oldest.since) < turn {
				return nil, errCrowd
			}
			close(oldest.over)
			v.streams = slices.Delete(v.streams, 0, 1)
		}
		v.streams = append(v.streams, stream)
	}
	if v.viewers++; v.viewers == 1 {
		v.start()
	}
	return func() { v.leave(stream) }, nil
}

// start starts a poller, which waits for the poller before it. The caller holds mu.
func (v *View) start() {
	if v.unseen != nil {
		v.unseen.Stop()
	}
	if !time.Now().Before(v.next) {
		v.shown = nil // there was no viewer for a while: the next survey is at once
	}
	before := v.poller
	ctx, cancel := context.WithCancel(context.Background())
	p := &poller{cancel, make(chan struct{})}
	v.poller = p
	go func() { // joined by leave
		defer close(p.done)
		if before != nil {
			<-before.done
		}
		v.poll(ctx)
	}()
}

func (v *View) leave(stream *seat) {
	v.mu.Lock()
	p := (*poller)(nil)
	if at := slices.Index(v.streams, stream); at >= 0 { // it has not given way
		v.streams = slices.Delete(v.streams, at, at+1)
	}
	if v.viewers--; v.viewers == 0 {
		p = v.poller
		p.cancel()
		v.unseen = time.AfterFunc(forgotten, v.forget)
	}
	v.mu.Unlock()
	if p != nil {
		<-p.done
	}
}

// forget forgets what the surveys have shown, if there is no viewer.
func (v *View) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.viewers == 0 { // not if one has come as the timer fired
		v.shown = nil
		v.memory.forget()
	}
}

// now returns what there is to show, nil if there is nothing yet, and a channel that is closed when there is something
// else.
func (v *View) now() (*frame, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shown, v.changed
}
