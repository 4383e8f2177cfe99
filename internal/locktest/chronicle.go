package locktest

import (
	"fmt"
	"sync"
)

// A Chronicle is what a Trace was told, in words. The zero value is empty.
type Chronicle struct {
	mu    sync.Mutex
	lines []string
}

// Write adds a line.
func (c *Chronicle) Write(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// Take returns the lines since the last call.
func (c *Chronicle) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}
