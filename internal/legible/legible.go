// Package legible prints text that somebody else has written: the names, notes and values of other processes, what a
// service calls an entry, and what it says in an error. On a terminal such a text may move the cursor, run backwards
// over what stands beside it, or look like another; in a log it may look like a line of its own; and it may be as long
// as the service takes. Everything that is printed or logged of others goes through here.
package legible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Most is how many bytes Text, Name and Quote return at most. No name, note or ID that farsync writes is as long:
	// a path and a holder have 1 KiB at most. The value of a candidate may be longer.
	Most = 2 << 10
	// MostLines is how many bytes Line and Lines return at most: some texts, or the value of a candidate, which has 64
	// KiB at most.
	MostLines = 128 << 10
	// ending is the room for what stands behind a text that is cut: the ellipsis and the length.
	ending = 48
)

// Printable reports whether a character is shown as itself, in its place: a letter, a mark, a number, a sign or an ASCII space. No control
// character is, none that is for formatting, as those that turn the direction of a text, and no other that leaves no trace.
func Printable(c rune) bool {
	return strconv.IsPrint(c) && !unicode.In(c, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		c != blank
}

// blank is the Braille pattern without dots.
const blank = '\u2800'

// Text returns a text on one line. What is not Printable in it is written as in a string of Go: \x1b, \u202e. A
// backslash stands for itself, so that two texts may look alike; Quote tells them apart. Of a text that would be
// longer than Most it returns the beginning, with an ellipsis and the length behind it: … 900000 bytes.
func Text(text string) string { return escaped(text, Printable, Most) }

// Line is Text for a line of several texts, and for a value that the user has asked for: MostLines is its bound.
func Line(text string) string { return escaped(text, Printable, MostLines) }

// Lines is Line for what may have more than one line.
func Lines(text string) string {
	return escaped(text, func(c rune) bool { return c == '\n' || Printable(c) }, MostLines)
}

// escaped returns a text, or the beginning of a text that would be longer than most. The characters in plain stand for
// themselves.
func escaped(text string, plain func(rune) bool, most int) string {
	var b strings.Builder
	done, kept := 0, 0 // so many bytes of the text are in b, and so many bytes of the result are left if it is cut
	for at := 0; at < len(text); {
		if long := b.Len() + at - done; long <= most-ending {
			kept = long
		}
		c, n := utf8.DecodeRuneInString(text[at:])
		if c == utf8.RuneError && n == 1 || !plain(c) {
			b.WriteString(text[done:at])
			b.WriteString(escape(text[at : at+n]))
			done = at + n
		}
		if at += n; b.Len()+at-done > most {
			b.WriteString(text[done:at])
			return b.String()[:kept] + "… " + strconv.Itoa(len(text)) + " bytes"
		}
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// escape returns one character, or a byte that is none, as it stands in a string of Go.
func escape(char string) string {
	quoted := strconv.QuoteToASCII(char)
	return quoted[1 : len(quoted)-1]
}

// Name returns a text as it is, or what Quote returns if it has something that is not Printable.
func Name(text string) string {
	if Text(text) == text {
		return text
	}
	return Quote(text)
}

// Quote returns a text as a string of Go, in which every character is Printable. strconv.Unquote returns the text,
// unless it was cut.
func Quote(text string) string {
	plain := func(c rune) bool { return c != '"' && c != '\\' && Printable(c) }
	return `"` + escaped(text, plain, Most-len(`""`)) + `"`
}

// Cut returns a text that has no more than so many bytes as it is, and of another as much of its beginning, in whole characters, with an
// ellipsis behind it.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for n := most; n >= 0 && n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n] + "…"
		}
	}
	return text[:most] + "…" // it is no text at all
}
