package redis

import (
	"fmt"
	"strconv"
	"time"

	"github.com/farsync/farsync/driver"
)

// An answer is what follows the first word of a script's answer. A field that is not what is asked for is its zero value.
type answer []any

// parse splits the first word off, and returns the error that it stands for.
func parse(list []any, err error) (answer, error) {
	if err != nil {
		return nil, err
	}
	a := answer(list)
	switch word := a.text(0); word {
	case "ok":
		return a[1:], nil
	case "unknown":
		return nil, errUnknown
	case "session":
		return nil, errExpired
	case "gone":
		return nil, driver.ErrGone
	case "conflict":
		return nil, driver.ErrConflict
	case "kind":
		return nil, errKind
	case "stray":
		return nil, fmt.Errorf("entry %s: %w", a.text(1), errStray)
	default:
		return nil, fmt.Errorf("%w: %q", errAnswer, word)
	}
}

func (a answer) text(i int) string {
	if i < len(a) {
		if text, ok := a[i].(string); ok {
			return text
		}
	}
	return ""
}

func (a answer) number(i int) int64 {
	if i < len(a) {
		if n, ok := a[i].(int64); ok {
			return n
		}
	}
	n, _ := strconv.ParseInt(a.text(i), 10, 64)
	return n
}

func (a answer) list(i int) answer {
	if i < len(a) {
		if list, ok := a[i].([]any); ok {
			return list
		}
	}
	return nil
}

// entry returns the entry whose fields a is.
func (a answer) entry() driver.Entry {
	e := driver.Entry{
		Queue: a.text(0), Kind: kindOf(a.text(1)), Units: max(a.number(2), 1), Revision: a.number(3), Version: a.number(4),
		Value: []byte(a.text(6)), ID: a.text(7),
	}
	if since := a.number(5); since != 0 {
		e.Since = time.UnixMicro(since)
	}
	return e
}

// entries returns the entries in the list at i.
func (a answer) entries(i int) []driver.Entry {
	rows := a.list(i)
	list := make([]driver.Entry, len(rows))
	for j := range rows {
		list[j] = rows.list(j).entry()
	}
	return list
}

var kinds = []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate}

// kindOf returns the kind of that name. A name that is none of farsync's is that of another program's entry.
func kindOf(name string) driver.Kind {
	for _, k := range kinds {
		if k.String() == name {
			return k
		}
	}
	return driver.Foreign
}
