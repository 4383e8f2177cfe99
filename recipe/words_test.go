package recipe

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

func TestWordsOfAnEntry(t *testing.T) {
	long := strings.Repeat("x", maxNote)
	for value, want := range map[string]words{
		"":                            {},
		"host pid 1":                  {holder: "host pid 1"}, // all that earlier versions write
		"h\nunder=/a/m-1\nunder=/b/2": {holder: "h", under: []string{"/a/m-1", "/b/2"}},
		"h\nnote=00-4bf9-00f0-01":     {holder: "h", note: "00-4bf9-00f0-01"},
		"h\nunder=/a\nnote=n":         {holder: "h", under: []string{"/a"}, note: "n"},
		"h\nturn=3\nnote=n":           {holder: "h", note: "n", turn: 3},
		"h\nturn=256":                 {holder: "h", turn: 255},
		"h\nturn=x":                   {holder: "h"},
		"h\nturn=3\nwaits=4711 sh":    {holder: "h", turn: 3, waits: "4711 sh"},
		"h\nwaits=\x1b[2J":            {holder: "h"},
		"h\nnote=a=b":                 {holder: "h", note: "a=b"},
		"h\nlater=something\nnote=n":  {holder: "h", note: "n"},
		"h\nnote=" + long:             {holder: "h", note: long},
		"h\nnote=" + long + "x":       {holder: "h"},
		"h\nnote=\x1b[2J":             {holder: "h"},
		"h\nnote=\xff\nunder=\x00":    {holder: "h"},
		"h\nunder=" + strings.Repeat("x", maxUnderBytes+1): {holder: "h"},
		"h" + strings.Repeat("\nunder=/a", maxUnder+1):     {holder: "h", under: slices.Repeat([]string{"/a"}, maxUnder)},
		"two\nlines":             {holder: "two\nlines"},
		"two\nlines\nnote=n":     {holder: "two\nlines\nnote=n"},
		"h\n":                    {holder: "h\n"},
		"break\nby one\nbecause": {holder: "break\nby one\nbecause"},
	} {
		require.Equal(t, want, wordsOf(driver.Entry{Kind: driver.Exclusive, Value: []byte(value)}), "%q", value)
	}
	for _, k := range []driver.Kind{driver.Candidate, driver.Foreign} {
		require.Equal(t, words{holder: "h\nnote=n"}, wordsOf(driver.Entry{Kind: k, Value: []byte("h\nnote=n")}), "%v: it is not ours", k)
	}
}

// FuzzWords: what other programs have written is shown and harms nothing, and what we wrote comes back.
func FuzzWords(f *testing.F) {
	f.Add("host pid 1", "/a/m-1", "/b/m-2", "note")
	f.Add("a\nunder=x", "\n", "", "\x00")
	f.Add("", "=", "under=", "note=")
	f.Fuzz(func(t *testing.T, holder, one, two, note string) {
		stranger := wordsOf(driver.Entry{Kind: driver.Exclusive, Value: []byte(holder)})
		require.True(t, strings.HasPrefix(holder, stranger.holder))
		require.LessOrEqual(t, len(stranger.under), maxUnder)
		for _, text := range append(stranger.under, stranger.note, stranger.waits) {
			require.True(t, utf8.ValidString(text))
		}
		if checkHolder(holder) != nil || !isPrintable(one) || !isPrintable(two) || len(one)+len(two) > maxUnderBytes {
			return
		}
		w := words{holder: holder, under: []string{one, two}, note: checkedNote(note), waits: checkedNote(note)}
		require.Equal(t, w, wordsOf(driver.Entry{Kind: driver.Read, Value: w.value()}))
	})
}
