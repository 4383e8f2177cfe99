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
	for value, want := range map[string]Words{
		"":                            {},
		"host pid 1":                  {Holder: "host pid 1"}, // all that earlier versions write
		"h\nunder=/a/m-1\nunder=/b/2": {Holder: "h", Under: []string{"/a/m-1", "/b/2"}},
		"h\nnote=00-4bf9-00f0-01":     {Holder: "h", Note: "00-4bf9-00f0-01"},
		"h\nunder=/a\nnote=n":         {Holder: "h", Under: []string{"/a"}, Note: "n"},
		"h\nnote=a=b":                 {Holder: "h", Note: "a=b"},
		"h\nlater=something\nnote=n":  {Holder: "h", Note: "n"},
		"h\nnote=" + long:             {Holder: "h", Note: long},
		"h\nnote=" + long + "x":       {Holder: "h"},
		"h\nnote=\x1b[2J":             {Holder: "h"},
		"h\nnote=\xff\nunder=\x00":    {Holder: "h"},
		"h\nunder=" + strings.Repeat("x", maxUnderBytes+1): {Holder: "h"},
		"h" + strings.Repeat("\nunder=/a", maxUnder+1):     {Holder: "h", Under: slices.Repeat([]string{"/a"}, maxUnder)},
		"two\nlines":             {Holder: "two\nlines"},
		"two\nlines\nnote=n":     {Holder: "two\nlines\nnote=n"},
		"h\n":                    {Holder: "h\n"},
		"break\nby one\nbecause": {Holder: "break\nby one\nbecause"},
	} {
		require.Equal(t, want, WordsOf(driver.Entry{Kind: driver.Exclusive, Value: []byte(value)}), "%q", value)
	}
	for _, k := range []driver.Kind{driver.Candidate, driver.Foreign} {
		require.Equal(t, Words{Holder: "h\nnote=n"}, WordsOf(driver.Entry{Kind: k, Value: []byte("h\nnote=n")}), "%v: it is not ours", k)
	}
}

// FuzzWords: what other programs have written is shown and harms nothing, and what we wrote comes back.
func FuzzWords(f *testing.F) {
	f.Add("host pid 1", "/a/m-1", "/b/m-2", "note")
	f.Add("a\nunder=x", "\n", "", "\x00")
	f.Add("", "=", "under=", "note=")
	f.Fuzz(func(t *testing.T, holder, one, two, note string) {
		stranger := WordsOf(driver.Entry{Kind: driver.Exclusive, Value: []byte(holder)})
		require.True(t, strings.HasPrefix(holder, stranger.Holder))
		require.LessOrEqual(t, len(stranger.Under), maxUnder)
		for _, text := range append(stranger.Under, stranger.Note) {
			require.True(t, utf8.ValidString(text))
		}
		if checkHolder(holder) != nil || !isPrintable(one) || !isPrintable(two) || len(one)+len(two) > maxUnderBytes {
			return
		}
		w := Words{Holder: holder, Under: []string{one, two}, Note: checkedNote(note)}
		require.Equal(t, w, WordsOf(driver.Entry{Kind: driver.Read, Value: w.value()}))
	})
}
