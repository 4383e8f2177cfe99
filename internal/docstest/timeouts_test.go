//go:build unix

package docstest_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func timeoutsProgram(t *testing.T) string {
	t.Helper()
	const first = "// bounds are how long a run waits for the lock, works under it, and waits for an answer of the server."
	code := blocks(t, "docs/TIMEOUTS.md", "go", first)
	require.Len(t, code, 1)
	return `package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func main() {
	service := farsynctest.NewMem()
	store, other := service.Open(nil), service.Open(nil)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	arrived := make(chan string, 1)
	parting := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Farsync-Token")
		service.Lose(store)
		<-r.Context().Done()
	}))
	quick := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, mu := context.Background(), farsync.NewMutex(store, "/locks/billing")
	const short, long = 50 * time.Millisecond, time.Hour
	begins := func(err error, text string) bool { return err != nil && strings.HasPrefix(err.Error(), text) }
	late := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

	fmt.Println("done:", run(ctx, mu, quick.URL, bounds{long, long, long}))
	lease, err := farsync.NewMutex(other, "/locks/billing").Lock(ctx)
	if err != nil {
		panic(err)
	}
	err = run(ctx, mu, quick.URL, bounds{short, long, long})
	fmt.Println("wait:", begins(err, "wait: "), late(err), errors.Is(err, farsync.ErrUnavailable))
	if err := lease.Release(); err != nil {
		panic(err)
	}
	err = run(ctx, mu, silent.URL, bounds{long, short, long}) // the time may have passed before the request
	fmt.Println("work:", late(err), errors.Is(err, farsync.ErrLost))
	err = run(ctx, mu, silent.URL, bounds{long, long, short})
	fmt.Println("request:", begins(err, "request: "), late(err), errors.Is(err, farsync.ErrLost))
	err = run(ctx, mu, parting.URL, bounds{long, long, long})
	fmt.Println("lost:", begins(err, "request: "), late(err), errors.Is(err, farsync.ErrLost), <-arrived != "")
}

` + first + "\n" + code[0] + "\n"
}

// TestTimeoutsOfThePage runs the code of docs/TIMEOUTS.md past each of its bounds, and over a lease that is lost.
func TestTimeoutsOfThePage(t *testing.T) {
	program := programOf(t, "TIMEOUTS")
	require.Equal(t, `done: <nil>
wait: true true false
work: true false
request: true true false
lost: true false true true`, run(t, exec.CommandContext(within(t, soon), program), ""))
}

// TestTimeoutsOfTheCommandAreItsFlags holds each row of docs/TIMEOUTS.md about the command to the help of that verb.
func TestTimeoutsOfTheCommandAreItsFlags(t *testing.T) {
	defaults := 0
	rows := regexp.MustCompile("(?m)^\\| [^|]* \\| `farsync (\\w+) ([^`]*)` \\| ([^|]*) \\|").FindAllStringSubmatch(document(t, "docs/TIMEOUTS.md"), -1)
	require.Len(t, rows, 7)
	for _, row := range rows {
		help := strings.Join(strings.Fields(run(t, exec.CommandContext(within(t, soon), farsyncCommand(t), row[1], "--help"), "")), " ")
		for _, flag := range regexp.MustCompile(`--[\w-]+`).FindAllString(row[2]+row[3], -1) {
			require.Contains(t, help, flag+" ", row[0])
		}
		for _, seconds := range regexp.MustCompile(`(\d+) s\b`).FindAllStringSubmatch(row[3], -1) {
			defaults++
			require.Contains(t, help, "(default "+seconds[1]+"s)", row[0])
		}
	}
	require.Equal(t, 4, defaults)
}
