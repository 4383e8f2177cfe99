package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// clocksApart is by how much the clocks of this host and of the service may differ.
const clocksApart = 2 * time.Second

// clocks compares the clocks of the servers that say the time with this host's, and with each other.
func (d *doctor) clocks(members []location.Member) {
	var known []location.Member
	for _, m := range members {
		switch {
		case m.Clock:
			known = append(known, m)
			d.clock(m)
		case len(m.Wrong) == 0:
			d.well("clock", "%s does not say what time it is", m.Host)
		}
	}
	if len(known) < 2 {
		return
	}
	order := func(a, b location.Member) int { return cmp.Compare(a.Ahead, b.Ahead) }
	first, last := slices.MaxFunc(known, order), slices.MinFunc(known, order)
	if apart := first.Ahead - last.Ahead; apart > clocksApart+first.Doubt+last.Doubt {
		d.wrong("clock", "that of %s is %v ahead of that of %s", first.Host, rounded(apart), last.Host)
	}
}

// clock compares the clock of a server with the clock of this host. The clocks agree, as far as can be known, where they
// differ by no more than the doubt, of which an answer that takes long leaves more.
func (d *doctor) clock(m location.Member) {
	is := "ahead of"
	if m.Ahead < 0 {
		is = "behind"
	}
	if m.Ahead.Abs() > clocksApart+m.Doubt {
		d.wrong("clock", "that of %s is %v %s this host's: times are shown wrong, and jobs of cron are not started together", m.Host, rounded(m.Ahead.Abs()), is)
		return
	}
	if m.Ahead.Abs() <= m.Doubt {
		d.well("clock", "that of %s and this host's agree, give or take %v", m.Host, rounded(m.Doubt))
		return
	}
	d.well("clock", "that of %s is %v %s this host's, give or take %v", m.Host, rounded(m.Ahead.Abs()), is, rounded(m.Doubt))
}
