package recipe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/farsync/farsync/driver"
)

// breakWord is the first line of the words that end a hold. The second names the client that left them, the third says why.
// Words of one line ask the holder to give back, and are heard only if it listens.
const breakWord = "break"

// maxWhy is how many bytes of a reason are passed on.
const maxWhy = 256

// Break ends the grant of an entry that List has returned, and returns once the entry is gone, or with the error of ctx. It
// leaves words with the entry, which the Store that holds it hears once it has held it for a while: it then tells its
// holder, and removes the entry. With remove the entry is removed at once, for holders that do not hear; they are not told.
func (q Queue) Break(ctx context.Context, e driver.Entry, why string, remove bool) error {
	if err := q.strike(ctx, e, printable(why), remove); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	for {
		err := q.do(ctx, func(ctx context.Context, in *session) error {
			_, err := in.Session.Find(ctx, e)
			return err
		})
		if errors.Is(err, driver.ErrGone) {
			return nil
		}
		if err == nil {
			err = q.Wait(ctx, driver.Target{Entry: e})
		}
		if err != nil {
			return err
		}
	}
}

// strike leaves the words with e, or removes it. An attempt of unknown outcome is repeated: the entry is told by its revision, too.
func (q Queue) strike(ctx context.Context, e driver.Entry, why string, remove bool) error {
	by := q.Store.options.Holder
	q.Store.log.Warn("breaking a lock", "path", e.Queue, "kind", e.Kind.String(), "token", tokenOf(e.Revision, 0),
		"holder", wordsOf(e).holder, "cause", why)
	return q.do(ctx, func(ctx context.Context, in *session) error {
		if !remove {
			return in.Tell(ctx, e, strings.Join([]string{breakWord, by, why}, "\n"))
		}
		v, _, err := in.Session.Delete(ctx, e)
		if err == nil && v.Turn {
			q.Store.touch(in, v)
		}
		return err
	})
}

// broken returns the error that words end a hold with, or nil if they do not.
func broken(words string) error {
	lines := strings.SplitN(words, "\n", 3)
	if len(lines) < 3 || lines[0] != breakWord {
		return nil
	}
	err := fmt.Errorf("%w by %s", ErrBroken, printable(lines[1]))
	if why := printable(lines[2]); why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return err
}

// printable returns the text on one line, without what a terminal would act on, and no longer than a line for people.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "") + "…"
	}
	return strings.TrimSpace(text)
}
