package locktest

import (
	"strings"
	"sync"
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
