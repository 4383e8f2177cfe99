package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The columns of a table of users.
const (
	columnLock = iota
	columnWho
	columnKind
	columnFor
	columnToken
	mostColumns
)

// A row is a line of a table. The first row is the head.
type row [mostColumns]string

var tableHead = row{"LOCK", "WHO", "KIND", "FOR", "TOKEN"}

const (
	gap = 2 // between columns
	// Names are shortened to leastWho and paths to someLock before the token is left out, and then paths to leastLock.
	leastWho  = 24
	someLock  = 24
	leastLock = 10
	// A cell that is wider makes the other cells of its column no wider, where no width is given.
	mostPadded = 256
)

// writeTable writes rows into so many columns of a terminal, or into as many as it takes if width is 0. Names are
// shortened first, in the middle: they begin with the host, and end with the process and what it does. Then the kind is
// left out, the middle of long paths, and the token. For how long somebody has been there is always shown.
func writeTable(w io.Writer, rows []row, width int) error {
	shown := [mostColumns]bool{true, true, true, true, true}
	var wide [mostColumns]int
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	// over is by how much the table is too wide.
	over := func() int {
		sum := -gap
		for i, w := range wide {
			if shown[i] {
				sum += w + gap
			}
		}
		return sum - width
	}
	narrow := func(column, least int) {
		wide[column] -= max(0, min(over(), wide[column]-least))
	}
	if full := wide; width > 0 {
		for _, step := range []func(){
			func() { narrow(columnWho, leastWho) },
			func() { shown[columnKind] = false },
			func() { narrow(columnLock, someLock) },
			func() { shown[columnToken] = false },
			func() { narrow(columnLock, leastLock) },
			func() { narrow(columnWho, 1) },
		} {
			if over() > 0 {
				step()
			}
		}
		for _, column := range []int{columnLock, columnWho} { // what was left out has made room
			wide[column] += max(0, min(-over(), full[column]-wide[column]))
		}
	}
	padded := wide
	for i := range padded {
		if width <= 0 {
			padded[i] = min(wide[i], mostPadded)
		}
	}
	last := columnToken
	for !shown[last] {
		last--
	}
	var b strings.Builder
	for _, r := range rows {
		for i, cell := range r {
			if !shown[i] {
				continue
			}
			cell = middle(cell, wide[i])
			b.WriteString(cell)
			if i < last {
				b.WriteString(strings.Repeat(" ", max(0, padded[i]-utf8.RuneCountInString(cell))+gap))
			}
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text between words into lines of so many columns. A word that is longer than a line stays whole.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines, line = append(lines, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// middle shortens a text to so many characters by its middle. The end of a name tells whether it holds, or which place
// it has.
func middle(text string, width int) string {
	runes := []rune(text)
	switch {
	case len(runes) <= width:
		return text
	case width < 4:
		return string(runes[:width])
	}
	tail := (width - 1) / 2
	if at := strings.LastIndex(text, " waits, "); at >= 0 {
		tail = min(max(tail, utf8.RuneCountInString(text[at:])), width-2)
	}
	return string(slices.Concat(runes[:width-1-tail], []rune("…"), runes[len(runes)-tail:]))
}
