//go:build unix

package program

import (
	"fmt"
	"strings"
	"time"
)

// A Table is the figures of an outcome.
type Table struct{ text strings.Builder }

// Row adds a figure. The remark may be empty.
func (t *Table) Row(name, figure, remark string, args ...any) {
	line := fmt.Sprintf("  %-28s %8s  %s", name, figure, fmt.Sprintf(remark, args...))
	t.text.WriteString(strings.TrimRight(line, " ") + "\n")
}

// Sum returns the table with what it comes to: the problems, or the words if there are none.
func (t *Table) Sum(problems []string, words string) string {
	if len(problems) == 0 {
		return "\n" + t.text.String() + "\n  " + words + "\n"
	}
	return "\n" + t.text.String() + "\n  WRONG: " + strings.Join(problems, "\n  WRONG: ") + "\n"
}

// Problems is a list of what is wrong.
type Problems []string

// If adds a problem if it is one.
func (p *Problems) If(is bool, format string, args ...any) {
	if is {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// Seconds is a time in a table.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// YesNo is a finding in a table.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "NO"
}
