package main

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// A patience is a flag that takes a time: 10m, and as flock does 10 or 0.5 for seconds.
type patience struct {
	time.Duration
	set bool
}

var errTime = errors.New("write a time such as 10, 0.5 or 10m")

func (p *patience) Set(text string) error {
	p.set = true
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(seconds >= 0 && seconds < math.MaxInt64/1e9) {
			return errTime
		}
		p.Duration = time.Duration(seconds * 1e9)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errTime
	}
	p.Duration = d
	return nil
}

func (p *patience) String() string {
	if !p.set {
		return ""
	}
	return p.Duration.String()
}

// Type is shown in the help.
func (p *patience) Type() string { return "DURATION" }
