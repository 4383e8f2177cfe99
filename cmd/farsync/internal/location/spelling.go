package location

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A service has a grammar for what it is given, and refuses the rest. A file has none: whatever its name is, there can
// be such a file, and a lock in it is another lock. So all that a URL cannot mean is refused here, for all stores
// alike.

// quotes are the characters that a file of settings or a text processor puts around a value.
const quotes = "\"'`‘’“”«»"

// checkText refuses what a person who reads a setting does not see, and what is left of the place that it was copied
// from.
func checkText(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("has a byte that is no UTF-8: remove it, or write it as % and two digits")
	}
	for at, c := range text {
		what := "a character that cannot be shown"
		switch {
		case unicode.IsSpace(c):
			what = "white space"
		case unicode.IsPrint(c):
			continue
		}
		where := "in its middle"
		switch {
		case at == 0:
			where = "at its beginning"
		case strings.TrimFunc(text[at:], invisible) == "":
			where = "at its end"
		}
		return fmt.Errorf("has %s %s: remove it, or write it as %s if it is meant", what, where, escape(string(c)))
	}
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	if text != "" && (strings.ContainsRune(quotes, first) || strings.ContainsRune(quotes, last)) {
		return errors.New("has quotes at its ends: remove them")
	}
	return nil
}

func invisible(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }

// plain are the signs that stand for themselves in the name of a file and in options, beside letters and digits.
const plain = "-._~/:@+="

// checkPlain refuses what has to be escaped in the name of a file and in options.
func checkPlain(text string) error {
	for _, c := range text {
		if !standsForItself(c) && c != '%' {
			return fmt.Errorf("has a character that stands for itself in no URL: remove it, or write it as %s if it is meant", escape(string(c)))
		}
	}
	return nil
}

func standsForItself(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) || strings.ContainsRune(plain, c) || c == filepath.Separator
}

// escape returns a text as it is written in the name of a file.
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < utf8.RuneSelf && c != '~' && standsForItself(rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// absolute has the files of the Location be the same from every directory.
func (l *Location) absolute() error {
	for _, file := range []*string{&l.File, &l.PasswordFile, &l.CACert, &l.Cert, &l.Key} {
		if *file == "" || filepath.IsAbs(*file) {
			continue
		}
		dir, err := os.Getwd()
		if err != nil {
			return configError{fmt.Errorf("%s: a file is relative, and the directory that farsync is in is not known: write its path from / on: %w", l.Scheme, err)}
		}
		*file = dir + string(filepath.Separator) + *file // not cleaned: a .. behind a link leads to where the link does
	}
	return nil
}
