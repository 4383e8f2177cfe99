package farsync

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/farsync/farsync/recipe"
)

// A shortage is why too few members are held.
type shortage struct {
	of    int      // members
	names []string // of the stores of members that are not held
	errs  []error  // why not
}

// shortage returns the error of a lease without the members for which errs has an error. The caller holds mu.
func (l *membership) shortage(errs []error) *shortage {
	s := &shortage{of: len(errs)}
	for i, err := range errs {
		if of, ok := errors.AsType[*Error](err); ok {
			err = of.Err
		}
		if err != nil {
			s.names = append(s.names, l.group.members[i].store.Name())
			s.errs = append(s.errs, err)
		}
	}
	return s
}

// Error names the members, those with one reason together.
func (s *shortage) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "no majority of %d members", s.of)
	told := map[string]bool{}
	for i, err := range s.errs {
		why := err.Error()
		if told[why] {
			continue
		}
		told[why] = true
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		text.WriteString(separator)
		for j := i; j < len(s.errs); j++ {
			if s.errs[j].Error() == why {
				fmt.Fprintf(&text, "%s, ", s.names[j])
			}
		}
		text.WriteString(why)
	}
	return text.String()
}

// Unwrap returns what happened to the members. ErrLocked is left out if the members that are taken would leave a
// majority: then the services of the others are in the way.
func (s *shortage) Unwrap() []error {
	taken := func(err error) bool { return errors.Is(err, ErrLocked) }
	if s.count(taken) > (s.of-1)/2 {
		return s.errs
	}
	return slices.DeleteFunc(slices.Clone(s.errs), taken)
}

// holder returns who was ahead of a Try at the first member that tells, if there is no majority because of the members
// that are taken.
func (s *shortage) holder() string {
	if !errors.Is(s, ErrLocked) {
		return ""
	}
	for _, err := range s.errs {
		if holder := recipe.HolderOf(err); holder != "" {
			return holder
		}
	}
	return ""
}

func (s *shortage) count(of func(error) bool) (n int) {
	for _, err := range s.errs {
		if of(err) {
			n++
		}
	}
	return n
}

// definite reports whether so many members have refused that no majority can be held.
func (s *shortage) definite(most int) bool { return s.count(refused) > most }

// definiteNow is definite for a call that does not wait: neither does it for a service that grants nothing for a while, or that does not
// confirm that an entry of this process is removed.
func (s *shortage) definiteNow(most int) bool {
	return s.count(func(err error) bool { return refused(err) || isSilence(err) || recipe.IsStuck(err) }) > most
}

func refused(err error) bool { return !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost) }
