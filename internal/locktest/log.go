package locktest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Log can be read while it is written.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write writes to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Has reports whether the log has the words.
func (l *Log) Has(words string) bool { return strings.Contains(l.String(), words) }

// Loose begins the line of a Store on a database whose server may lose what it has confirmed. The settings follow.
const Loose = `level=WARN msg="the database server may lose what it has confirmed, and two may hold then" settings=`

// Await waits until the log has the words: a Store has its lines written in the background, in their order.
func (l *Log) Await(t testing.TB, words string) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Has(words) }, hang, time.Millisecond, "the log does not say %q", words)
}
