//go:build unix

package program

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Screen is what the show writes on: lines that stay, each with the time since the start, and one below them that
// says how far things are. On a terminal that one is redrawn in place; elsewhere it is printed once a second.
type Screen struct {
	out      *os.File
	terminal bool
	begun    time.Time
	drawn    bool      // the progress line is on the terminal now
	last     time.Time // when progress was printed, if it is not a terminal
}

const (
	lineWidth = 80
	indent    = "         " // as wide as the time before a text
)

func newScreen(out *os.File) *Screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	now := time.Now()
	return &Screen{out: out, terminal: terminal, begun: now, last: now}
}

// Took is how long the show has been going on.
func (s *Screen) Took() time.Duration { return time.Since(s.begun) }

// Fact prints something that is so for the whole show.
func (s *Screen) Fact(name, value string) { fmt.Fprintf(s.out, "%s%-8s%s\n", indent, name, value) }

// Say prints what happens, broken into lines.
func (s *Screen) Say(format string, args ...any) {
	s.clear()
	before := fmt.Sprintf("%6.2fs  ", time.Since(s.begun).Seconds())
	for _, line := range wrapped(fmt.Sprintf(format, args...), lineWidth-len(indent)) {
		fmt.Fprintln(s.out, before+line)
		before = indent
	}
}

// Progress shows how many of all are done, of what, and some words about it.
func (s *Screen) Progress(done, all int, of, words string) {
	switch {
	case s.terminal:
		const width = 10
		bar := strings.Repeat("#", width*done/max(all, 1))
		line := fmt.Sprintf("%s[%-*s] %d of %d %s: %s", indent, width, bar, done, all, of, words)
		// A line that wraps could not be redrawn in place.
		fmt.Fprint(s.out, "\r\033[K", line[:min(len(line), s.width()-1)])
		s.drawn = true
	case time.Since(s.last) >= time.Second:
		s.last = time.Now()
		s.Say("%d of %d %s: %s", done, all, of, words)
	}
}

// width returns the width of the terminal, lineWidth at most.
func (s *Screen) width() int {
	size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return lineWidth
	}
	return min(int(size.Col), lineWidth)
}

// clear takes the progress line off the terminal.
func (s *Screen) clear() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\033[K")
		s.drawn = false
	}
}

// wrapped breaks text at spaces into lines of at most width characters, if its words allow it.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
