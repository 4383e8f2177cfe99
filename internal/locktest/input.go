package locktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// An Input is something wrong that a caller gives, and what the answer has to be.
type Input struct {
	// Given says what is wrong.
	Given string
	// Why says why the answer matters.
	Why string
	// Within is when the call's ctx ends. Zero is a ctx without an end.
	Within time.Duration
	// Call gives it, in a goroutine of its own. Its lines of the log go to log.
	Call func(t *testing.T, ctx context.Context, log *slog.Logger) error
	// Says are the essential parts of the message.
	Says []string
	// Never are parts that it may not have, beside the Secret.
	Never []string
	// Is lists the errors in the chain. No other error that a caller tells apart may be in the chain.
	Is []error
	// Panics is true if the call has to panic, with a message that begins with the package.
	Panics bool
}

// Secret is the password of all inputs. No message and no line of a log may have it.
const Secret = "s3cr3t-0f-the-caller"

// hang is how long a call may take at most.
const hang = time.Minute

// unusual is what is worth a look: a call that returns so long after its ctx has ended, or that takes so long without one.
const unusual = time.Second

// toldApart are the errors that a caller tells apart.
var toldApart = []error{
	farsync.ErrLocked, farsync.ErrLost, farsync.ErrReleased, farsync.ErrClosed, farsync.ErrUnavailable, farsync.ErrUpgrade,
	farsync.ErrTooLarge, farsync.ErrSize, farsync.ErrKind, farsync.ErrPath, farsync.ErrUncertain, farsync.ErrNoLeader, farsync.ErrDeadlock,
	context.Canceled, context.DeadlineExceeded,
}

// RunInputs gives each input, all at the same time, and looks at the answers. It logs how long each has taken.
func RunInputs(t *testing.T, inputs []Input) {
	var all sync.WaitGroup
	for _, in := range inputs {
		all.Go(func() {
			t.Run(in.Given, func(t *testing.T) {
				in.run(t)
				if t.Failed() {
					t.Log("why it matters: " + in.Why)
				}
			})
		})
	}
	all.Wait()
}

func (in Input) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if in.Within > 0 {
		ctx, cancel = context.WithTimeout(ctx, in.Within)
	}
	defer cancel()
	var log Log                                                                  // its lines are written in the background until what t has opened is closed
	t.Cleanup(func() { assert.NotContains(t, log.String(), Secret, "the log") }) // when what t has opened is closed
	done, begun := make(chan struct{}), time.Now()
	var err error
	panicked := false
	go func() { // joined, or the test fails
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				err, panicked = asError(value), true
			}
		}()
		err = in.Call(t, ctx, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	select {
	case <-done:
	case <-time.After(hang):
		require.FailNow(t, "it has not returned")
	}
	took := time.Since(begun).Round(time.Millisecond)
	mark := ""
	if took > in.Within+unusual {
		mark = " (late)"
	}
	t.Logf("%v%s: %v", took, mark, err)
	require.Equal(t, in.Panics, panicked, "it panics")
	require.Error(t, err)
	in.check(t, err)
}

// asError returns what a call has panicked with.
func asError(value any) error {
	if err, is := value.(error); is {
		return err
	}
	return errors.New(fmt.Sprint(value))
}

func (in Input) check(t *testing.T, err error) {
	message := err.Error()
	for _, part := range in.Says {
		assert.Contains(t, message, part)
	}
	assert.True(t, strings.HasPrefix(message, "farsync: "))
	assert.Less(t, len(message), 1000, "what others write does not flood the caller's log")
	for _, never := range append(in.Never, Secret, "\n", "\x00", "%!", "<nil>", ": farsync: ", "(farsync: ") {
		assert.NotContains(t, message, never)
	}
	for _, told := range toldApart {
		assert.Equal(t, slices.Contains(in.Is, told), errors.Is(err, told), "errors.Is %q", told)
	}
	for _, want := range in.Is {
		require.ErrorIs(t, err, want)
	}
	if in.Panics {
		return
	}
	var of *farsync.Error
	if assert.ErrorAs(t, err, &of, "the error of every call is one") {
		assert.NotEmpty(t, of.Op)
		assert.NotEmpty(t, of.Path)
	}
}
