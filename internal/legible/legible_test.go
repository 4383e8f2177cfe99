package legible_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/legible"
)

func TestTextsOfOthers(t *testing.T) {
	for text, want := range map[string]struct{ text, name string }{
		"":                       {"", ""},
		"worker-1 pid 7":         {"worker-1 pid 7", "worker-1 pid 7"},
		`C:\x "y"`:               {`C:\x "y"`, `C:\x "y"`},
		"Jürgen 東京 שלום e\u0301": {"Jürgen 東京 שלום e\u0301", "Jürgen 東京 שלום e\u0301"},
		"\x1b[2J":                {`\x1b[2J`, `"\x1b[2J"`},
		"a\nb\r\t\x00\x7f":       {`a\nb\r\t\x00\x7f`, `"a\nb\r\t\x00\x7f"`},
		"\u009b2J":               {`\u009b2J`, `"\u009b2J"`},
		"a\u202eb\u2066":         {`a\u202eb\u2066`, `"a\u202eb\u2066"`},
		"a\u200b\u00ad\ufeffb":   {`a\u200b\u00ad\ufeffb`, `"a\u200b\u00ad\ufeffb"`},
		"a\u3164\u115f\uffa0":    {`a\u3164\u115f\uffa0`, `"a\u3164\u115f\uffa0"`},
		"a\u2800\u00a0\u3000":    {`a\u2800\u00a0\u3000`, `"a\u2800\u00a0\u3000"`},
		"a\U000e0041\ufe0f":      {`a\U000e0041\ufe0f`, `"a\U000e0041\ufe0f"`},
		"a\xff\"":                {`a\xff"`, `"a\xff\""`},
		"\ufffd":                 {"\ufffd", "\ufffd"},
	} {
		require.Equal(t, want.text, legible.Text(text))
		require.Equal(t, want.name, legible.Name(text))
	}
	require.Equal(t, "a\nb\\x1b\n", legible.Lines("a\nb\x1b\n"))
}

// TestNoCharacterHidesOrTurns: of all there are, none that has no look of its own is shown.
func TestNoCharacterHidesOrTurns(t *testing.T) {
	for c := rune(0); c <= unicode.MaxRune; c++ {
		bad := unicode.In(c, unicode.C, unicode.Z, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && c != ' '
		if bad && legible.Printable(c) {
			require.Fail(t, "is shown", "%U", c)
		}
	}
	for _, c := range "aZ0 -_/\\\"é東ש✓" {
		require.True(t, legible.Printable(c), "%U", c)
	}
}

func TestCutsBetweenCharacters(t *testing.T) {
	require.Equal(t, "abc", legible.Cut("abc", 3))
	require.Equal(t, "ab…", legible.Cut("abc", 2))
	require.Equal(t, "é…", legible.Cut("ééé", 3))
	require.Equal(t, "…", legible.Cut("東京", 2)) // no whole character
	require.Equal(t, "\x80\x80\x80\x80\x80…", legible.Cut(strings.Repeat("\x80", 9), 5))
}

// TestLongTextsAreCut: what a text of others takes is bounded, whatever it is made of, and how long it is, is said.
func TestLongTextsAreCut(t *testing.T) {
	for _, c := range []string{"a", "\x1b", "\xff", "é", "\U000e0041", `"`, "\n"} {
		text := strings.Repeat(c, 900_000)
		for printed, most := range map[string]int{
			legible.Text(text): legible.Most, legible.Name(text): legible.Most, legible.Quote(text): legible.Most,
			legible.Line(text): legible.MostLines, legible.Lines(text): legible.MostLines,
		} {
			require.LessOrEqual(t, len(printed), most, "%q", c)
			require.Greater(t, len(printed), most-100, "%q", c)
			require.Contains(t, printed, "… "+strconv.Itoa(len(text))+" bytes", "%q", c)
			require.True(t, utf8.ValidString(printed), "%q", c)
		}
	}
	whole := strings.Repeat("a", legible.Most)
	require.Equal(t, whole, legible.Text(whole))
	require.Equal(t, whole, legible.Name(whole))
	require.Equal(t, `"`+whole[2:]+`"`, legible.Quote(whole[2:]))
	require.Equal(t, whole[:legible.Most-48]+"… 2049 bytes", legible.Text(whole+"a"))
}

func FuzzText(f *testing.F) {
	for _, text := range []string{"", "worker-1", "\x1b[2J\r\n", "a\u202eb\u3164\u2800", "\xff\xc3", `\"`, "\U000e0041é"} {
		f.Add(text, 5)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		shown := func(text string) {
			require.True(t, utf8.ValidString(text))
			for _, c := range text {
				require.True(t, legible.Printable(c), "%q", text)
			}
		}
		for _, printed := range []string{legible.Text(text), legible.Name(text), legible.Quote(text)} {
			shown(printed)
			require.Equal(t, printed, legible.Text(printed), "what is printed may be printed again")
		}
		for line := range strings.SplitSeq(legible.Lines(text), "\n") {
			shown(line)
		}
		require.Equal(t, strings.Count(text, "\n"), strings.Count(legible.Lines(text), "\n"))
		back, err := strconv.Unquote(legible.Quote(text))
		require.NoError(t, err)
		if len(strconv.Quote(text)) <= legible.Most/2 { // what is printable to strconv and not here is longer
			require.Equal(t, text, back)
		}
		require.LessOrEqual(t, len(legible.Quote(text)), legible.Most)

		most = max(most, 0) % 100
		part := legible.Cut(text, most)
		require.LessOrEqual(t, len(part), max(most+len("…"), 0))
		if len(text) <= most {
			require.Equal(t, text, part)
		} else {
			require.True(t, strings.HasPrefix(text, strings.TrimSuffix(part, "…")))
		}
		if utf8.ValidString(text) {
			require.True(t, utf8.ValidString(part))
		}
	})
}
