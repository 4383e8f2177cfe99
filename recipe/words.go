package recipe

import (
	"context"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/nested"
)

const (
	// maxNote is how many bytes a note may have. A traceparent has 55.
	maxNote = 256
	// An entry names the innermost of the leases that it is under, in no more lines and no more bytes than these.
	maxUnder      = 16
	maxUnderBytes = 4096
)

// The words of an entry are what its value says: the holder on the first line, then, if there is more to say, a line
// "under=<entry>" for each of under, "note=<text>", "turn=<number>" once a turn that is not the first is held for long, and "waits=<text>"
// once its holder has said what it waits for. Lines with other keys are for versions to come.
//
// A version that knows only holders shows all of them as the holder's name. The value of a candidate is the user's, and what
// another program has written is its own: either is a holder's name as a whole.
type words struct {
	holder string
	under  []string
	note   string
	turn   int
	waits  string
}

// WordsOf returns what the value of an entry says. Under are the IDs of the entries of the same Store that the caller held when
// it joined, the innermost first: the entries of the leases that its context stood for, or the first of these if they are many. Note
// is a short text that the caller has given along: a traceparent, say.
func WordsOf(e driver.Entry) (holder string, under []string, note string) {
	w := wordsOf(e)
	return w.holder, w.under, w.note
}

func wordsOf(e driver.Entry) words {
	value := string(e.Value)
	holder, rest, more := strings.Cut(value, "\n")
	if !more || e.Kind == driver.Candidate || e.Kind == driver.Foreign {
		return words{holder: value}
	}
	w := words{holder: holder}
	for line := range strings.SplitSeq(rest, "\n") {
		key, text, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return words{holder: value}
		case key == "under" && len(w.under) < maxUnder && len(text) <= maxUnderBytes && isPrintable(text):
			w.under = append(w.under, text)
		case key == "note":
			w.note = checkedNote(text)
		case key == "turn":
			turn, _ := strconv.ParseUint(text, 10, 8)
			w.turn = int(turn)
		case key == "waits":
			w.waits = checkedNote(text)
		}
	}
	return w
}

// value returns the words as the value of an entry.
func (w words) value() []byte {
	value := []byte(w.holder)
	for _, id := range w.under {
		value = append(append(value, "\nunder="...), id...)
	}
	if w.note != "" {
		value = append(append(value, "\nnote="...), w.note...)
	}
	if w.turn > 0 {
		value = append(append(value, "\nturn="...), strconv.Itoa(w.turn)...)
	}
	if w.waits != "" {
		value = append(append(value, "\nwaits="...), w.waits...)
	}
	return value
}

// checkedNote returns a note that fits in a line, or none. Part of one would be of no use.
func checkedNote(note string) string {
	if len(note) > maxNote || !isPrintable(note) {
		return ""
	}
	return note
}

// isPrintable reports whether the text can be shown in a line.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// underOf returns the IDs of the entries that a caller holds on this Store, going by its ctx, the innermost first.
func (s *Store) underOf(ctx context.Context) (ids []string) {
	left := maxUnderBytes
	for lease := range nested.All(ctx) {
		id := s.entryOf(lease)
		if id == "" {
			continue
		}
		if left -= len(id); left < 0 || len(ids) == maxUnder {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// entryOf returns the ID of the entry of a lease on this Store, and nothing if it has ended or is another Store's.
func (s *Store) entryOf(lease nested.Lease) string {
	switch over := lease.(type) {
	case nested.Elsewhere:
		if over.Store == any(s) {
			return over.Entry
		}
	case interface{ Hold() *Hold }:
		if lease.Err() != nil {
			return ""
		}
		if h := over.Hold(); h != nil && h.grant.store == s {
			return h.grant.place.Load().entry.ID
		}
	}
	return ""
}
