// Package legible prints text that somebody else has written: the names, notes and values of other processes, what a service calls an entry,
// and what it says in an error. On a terminal such a text may move the cursor, run backwards over what stands beside it, or look like
// another; in a log it may look like a line of its own. Everything that is printed or logged of others goes through here.
package legible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable reports whether a character is shown as itself, in its place: a letter, a mark, a number, a sign or an ASCII space. No control
// character is, none that is for formatting, as those that turn the direction of a text, and no other that leaves no trace.
func Printable(c rune) bool {
	return strconv.IsPrint(c) && !unicode.In(c, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		c != blank
}

// blank is the Braille pattern without dots.
const blank = '\u2800'

// Text returns a text on one line. What is not Printable in it is written as in a string of Go: \x1b, \u202e. A backslash stands for
// itself, so that two texts may look alike; Quote tells them apart.
func Text(text string) string { return escaped(text, false) }

// Lines is Text for what may have more than one line.
func Lines(text string) string { return escaped(text, true) }

func escaped(text string, lines bool) string {
	good := 0 // so many bytes stand for themselves
	var b strings.Builder
	for at := 0; at < len(text); {
		c, n := utf8.DecodeRuneInString(text[at:])
		if c == utf8.RuneError && n == 1 || !Printable(c) && (c != '\n' || !lines) {
			b.WriteString(text[good:at])
			b.WriteString(escape(text[at : at+n]))
			good = at + n
		}
		at += n
	}
	if good == 0 {
		return text
	}
	b.WriteString(text[good:])
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

// Quote returns a text as a string of Go, in which every character is Printable. strconv.Unquote returns the text.
func Quote(text string) string { return Text(strconv.Quote(text)) }

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
