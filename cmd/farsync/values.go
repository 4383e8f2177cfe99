package main

import (
	"fmt"
	"math"
	"strconv"
)

// A text is a flag that takes one. The help shows what it is instead of the type.
type text struct {
	value *string
	is    string
}

func (t text) Set(given string) error {
	*t.value = given
	return nil
}

func (t text) String() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// Type is shown in the help.
func (t text) Type() string { return t.is }

// A whole is a flag that takes a whole number within bounds.
type whole struct {
	value       *int64
	is          string
	least, most int64
}

// anyFrom returns a whole without an upper bound.
func anyFrom(least int64, value *int64, is string) *whole {
	return &whole{value, is, least, math.MaxInt64}
}

func (n *whole) Set(given string) error {
	i, err := strconv.ParseInt(given, 10, 64)
	switch {
	case (err != nil || i < n.least || i > n.most) && n.most == math.MaxInt64:
		return fmt.Errorf("write a whole number from %d on", n.least)
	case err != nil || i < n.least || i > n.most:
		return fmt.Errorf("write a whole number from %d to %d", n.least, n.most)
	}
	*n.value = i
	return nil
}

func (n *whole) String() string {
	if n.value == nil {
		return ""
	}
	return strconv.FormatInt(*n.value, 10)
}

// Type is shown in the help.
func (n *whole) Type() string { return n.is }
