package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// A text is all comments of a package, or a document.
type text struct {
	name                string // the folder of the package, or the path of the document
	words               int
	pronouns, sentences []place
}

// A place is where something was found.
type place struct {
	file string
	line int
	what string
}

const (
	bound  = 1.5 // in 1,000 words
	number = 2   // fewer are no finding, however short the text
)

func (t *text) rate(of []place) float64 {
	if t.words == 0 {
		return 0
	}
	return 1000 * float64(len(of)) / float64(t.words)
}

func (t *text) findings() (said []string) {
	for _, kind := range []struct {
		called string
		places []place
	}{{"pronouns for a noun of another sentence", t.pronouns}, {"sentences without a noun for a subject", t.sentences}} {
		if len(kind.places) < number || t.rate(kind.places) <= bound {
			continue
		}
		lines := []string{fmt.Sprintf("%s: %d %s in %d words, %.1f in 1,000: at most %.1f; name the thing again",
			t.name, len(kind.places), kind.called, t.words, t.rate(kind.places), bound)}
		for _, p := range kind.places {
			lines = append(lines, fmt.Sprintf("\t%s:%d: %s", p.file, p.line, p.what))
		}
		said = append(said, strings.Join(lines, "\n"))
	}
	return said
}

// behind follows a pronoun that stands alone: "the one that waits", and not "the one exception".
const behind = `that|who|which|of|in|on|with|behind|ahead|before|after|is|are|was|were|has|have|had|may|can|does|waits|holds`

var (
	// pronouns may have their noun in the same sentence, which no expression can see. So the bound is not 0.
	pronouns = regexp.MustCompile(`(?i)\b(the one( (` + behind + `)\b|[.,;:)])|ones? (that|who)\b|those (that|of)\b|that of\b|of which\b|` +
		`what (holds|waits)\b)`)

	// sentences begin with a pronoun in place of a noun: "One that waits", and not "One waiter".
	sentences = regexp.MustCompile(`^((What|Whoever|None)|(Those|One|Another|Either) (` + behind + `))\b`)

	// quotes are the words of others, or words that a text speaks of.
	quotes = regexp.MustCompile(`"[^"]{1,60}"`)

	// ends of sentences. A colon and a semicolon go on with the sentence, and so does the last point of "e.g.".
	end = regexp.MustCompile(`[^.]{2}[.!?]["')\]]*\s+`)
)

// add counts a paragraph, whose lines come without their comment marks. Line is the first, counted from 1.
func (t *text) add(file string, line int, lines []string) {
	joined := quotes.ReplaceAllStringFunc(strings.Join(lines, "\n"), func(quote string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' || r > unicode.MaxASCII {
				return r
			}
			return 'x' // as long as before
		}, quote)
	})
	t.words += len(strings.FieldsFunc(joined, func(r rune) bool { return unicode.IsSpace(r) || r == '|' }))
	at := func(offset int) int { return line + strings.Count(joined[:offset], "\n") }
	flat := strings.ReplaceAll(joined, "\n", " ") // byte for byte
	for _, m := range pronouns.FindAllStringIndex(flat, -1) {
		t.pronouns = append(t.pronouns, place{file, at(m[0]), around(flat, m[0], m[1])})
	}
	begin := 0
	for begin < len(flat) {
		stop := len(flat)
		if m := end.FindStringIndex(flat[begin:]); m != nil {
			stop = begin + m[1]
		}
		sentence := flat[begin:stop]
		if sentences.MatchString(sentence) && !strings.HasSuffix(strings.TrimRight(sentence, " "), "?") {
			t.sentences = append(t.sentences, place{file, at(begin), around(sentence, 0, 0)})
		}
		begin = stop
	}
}

// around returns a part of a text with some words behind and before it.
func around(s string, from, to int) string {
	const before, after = 20, 50
	from, to = max(0, from-before), min(len(s), to+after)
	for from > 0 && s[from-1] != ' ' {
		from--
	}
	for to < len(s) && s[to] != ' ' {
		to++
	}
	return strings.Join(strings.Fields(s[from:to]), " ")
}
