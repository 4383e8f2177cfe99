//go:build unix

// Package history records what clients of locks did and saw, across processes, and checks it.
//
// Each process appends to a file of its own: a line before a call and a line after it, written at once. So it is
// known what a process did until it was killed, and what it did after a stop. All times are of one clock, which the
// processes of a machine share and nothing sets.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Never is a time after all others.
const Never int64 = math.MaxInt64

// Now returns the time in nanoseconds, by a clock that all processes of the machine share and nothing sets.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("history: no monotonic clock: %v", err))
	}
	return t.Nano()
}

// A Kind is what an operation asks for, and thereby what it excludes.
type Kind string

// The kinds of operations.
const (
	Exclusive Kind = "exclusive"
	Reentrant Kind = "reentrant" // excludes what other clients ask for
	Write     Kind = "write"
	Read      Kind = "read"
	Permit    Kind = "permit"
	Lead      Kind = "lead"
	Quorum    Kind = "quorum"  // exclusive, and has the tokens of several members instead of one
	Observe   Kind = "observe" // looks who leads, and holds nothing
)

// An Outcome is what a call came to, or what became of the hold that it won.
type Outcome string

// Outcomes of a call, and below them the outcomes of a hold.
const (
	Open   Outcome = ""       // the call has not returned
	OK     Outcome = "ok"     // it holds from then on at the latest
	Failed Outcome = "failed" // it holds nothing

	Held     Outcome = "held"     // it was still held at that time
	Leaving  Outcome = "leaving"  // Release was called
	Released Outcome = "released" // Release returned: held until it was called
	Unknown  Outcome = "unknown"  // the same, and the service has not confirmed it
	Lost     Outcome = "lost"     // the loss was noticed
)

// An Event is a line of a history. The first of an operation has a Kind, and is its invocation.
type Event struct {
	At      int64   `json:"at"`
	Number  int64   `json:"n"` // of the operation, in its process
	Outcome Outcome `json:"is,omitempty"`
	Client  int     `json:"client,omitempty"`
	Queue   string  `json:"queue,omitempty"`
	Kind    Kind    `json:"kind,omitempty"`
	Units   int64   `json:"units,omitempty"`
	Token   int64   `json:"token,omitempty"`  // granted, or seen
	Tokens  []int64 `json:"tokens,omitempty"` // the tokens of a quorum's members, 0 for a member that was not won
	Session string  `json:"session,omitempty"`
	Entry   string  `json:"entry,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// A Recorder writes the history of one process. Its methods may be called by any goroutine.
type Recorder struct {
	mu     sync.Mutex
	file   *os.File
	number int64
}

// Create begins the history of a process, whose name it has.
func Create(dir, process string) (*Recorder, error) {
	f, err := os.OpenFile(filepath.Join(dir, process+".jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Recorder{file: f}, nil
}

// Invoke notes a call that is about to be made, and returns its number.
func (r *Recorder) Invoke(client int, queue string, k Kind, units int64) int64 {
	r.mu.Lock()
	r.number++
	n := r.number
	r.mu.Unlock()
	r.Note(Event{At: Now(), Number: n, Client: client, Queue: queue, Kind: k, Units: units})
	return n
}

// Note notes what has become of a call. It does not return before the line is in the file, and so outlives the process.
// A history with gaps proves nothing, so Note panics when it cannot write.
func (r *Recorder) Note(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		r.mu.Lock()
		_, err = r.file.Write(append(line, '\n'))
		r.mu.Unlock()
	}
	if err != nil {
		panic(fmt.Sprintf("history: %v", err))
	}
}

// Close ends the history.
func (r *Recorder) Close() error { return r.file.Close() }

// An Operation is a call, and the hold that it won.
type Operation struct {
	Process string
	Client  int // in its process
	Number  int64
	Queue   string
	Kind    Kind
	Units   int64
	Token   int64
	Tokens  []int64 // of a quorum, one of each member
	Session string
	Entry   string
	Error   string

	Call, Return int64   // of the call that acquires or observes
	Outcome      Outcome // of that call: Open, OK or Failed
	// It is known to have been held from Return to Seen, and not to have been held after End. Seen is 0 if it was never
	// seen held, and End is Never if nothing says that it has ended.
	Seen, End int64
	Ended     Outcome // Open, Released, Unknown or Lost
}

// owner names the client that an operation is of.
func (o *Operation) owner() string { return fmt.Sprintf("%s/%d", o.Process, o.Client) }

func (o *Operation) String() string {
	var token any = o.Token
	if o.Kind == Quorum {
		token = o.Tokens
	}
	return fmt.Sprintf("%s of %s #%d, token %v", o.Kind, o.owner(), o.Number, token)
}

// Load returns the operations of all histories in a directory. A process that is in deaths was killed at that time at
// the latest, and holds nothing since.
func Load(dir string, deaths map[string]int64) ([]Operation, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []Operation
	for _, name := range names {
		process := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		death, dead := deaths[process]
		if !dead {
			death = Never
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		list, err := read(f, process, death)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", process, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// read folds the events of a process into operations. If the process was killed, the last line may be cut short.
func read(from io.Reader, process string, death int64) ([]Operation, error) {
	var list []Operation
	at := map[int64]int{}
	leaving := map[int64]int64{}
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if e.Kind != "" {
			at[e.Number] = len(list)
			list = append(list, Operation{
				Process: process, Client: e.Client, Number: e.Number, Queue: e.Queue, Kind: e.Kind, Units: e.Units,
				Call: e.At, Return: Never, End: death,
			})
			continue
		}
		i, ok := at[e.Number]
		if !ok {
			return nil, fmt.Errorf("operation %d was not invoked", e.Number)
		}
		switch o := &list[i]; e.Outcome {
		case OK:
			o.Outcome, o.Return, o.Token, o.Tokens, o.Session, o.Entry = OK, e.At, e.Token, e.Tokens, e.Session, e.Entry
		case Failed:
			o.Outcome, o.Return, o.Error = Failed, e.At, e.Error
		case Held:
			o.Seen = max(o.Seen, e.At)
		case Leaving:
			leaving[e.Number] = e.At
		case Released, Unknown: // by what Release promises, it was held when Release was called
			o.Ended, o.Seen, o.End, o.Error = e.Outcome, max(o.Seen, leaving[e.Number]), e.At, e.Error
		case Lost:
			if o.Ended != Lost { // Release says it once more
				o.Ended, o.End, o.Error = Lost, e.At, e.Error
			}
		default:
			return nil, fmt.Errorf("%q: unknown outcome", line)
		}
	}
}
