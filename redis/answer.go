package redis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/farsync/farsync/driver"
)

// An answer is what the script says, as its first lines have it.
type answer struct {
	n        int64
	more     bool
	register driver.Register // value and version
	silence  time.Duration   // for how long nothing is granted
	entries  []driver.Entry
	all      bool
}

const (
	// header is how many fields stand in front of the entries, and width is how many each of these has.
	header = 6
	width  = 9
)

// parse returns an answer, or the error that its first word stands for.
func parse(list []string) (a answer, err error) {
	list = slices.Concat(list, make([]string, header))[:max(len(list), header)]
	err, known := words[list[0]]
	switch {
	case !known:
		return a, fmt.Errorf("%w: %q", errAnswer, list[0])
	case errors.Is(err, errText):
		return a, fmt.Errorf("%s: %w (it reads %q)", list[3], err, list[4])
	case err != nil && list[3] != "":
		return a, fmt.Errorf("%s: %w", list[3], err)
	case err != nil:
		return a, err
	}
	a = answer{n: number(list[1]), more: list[2] == "1", register: driver.Register{Value: list[3], Version: number(list[4])}}
	a.silence = time.Duration(number(list[5])) * time.Microsecond
	list = list[header:]
	a.all = len(list)%width == 1
	for len(list) >= width {
		a.entries = append(a.entries, entry(list[:width]))
		list = list[width:]
	}
	return a, nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// entry returns the entry whose fields these are.
func entry(fields []string) driver.Entry {
	e := driver.Entry{
		Queue: fields[0], Kind: driver.KindOf(fields[1]), Units: number(fields[2]), Revision: number(fields[3]), Version: number(fields[4]),
		Value: []byte(fields[6]), Session: fields[7], ID: fields[8],
	}
	if since := number(fields[5]); since != 0 {
		e.Since = time.UnixMicro(since)
	}
	return e
}
