package main

import (
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// self is this process.
var self = os.Getpid()

// A usage is what has been used up to a moment.
type usage struct {
	at      time.Time
	client  time.Duration // processor time of the contenders' process
	server  time.Duration // processor time of all servers
	objects uint64        // allocated here
	bytes   uint64
}

// usageOf returns what the process of contenders and the servers have used. Processor times are 0 where there is no /proc.
func usageOf(client int) usage {
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocated)
	u := usage{at: time.Now(), objects: allocated[0].Value.Uint64(), bytes: allocated[1].Value.Uint64()}
	processes := processTimes()
	for pid, p := range processes {
		switch {
		case pid == client:
			u.client = p.own
		case below(processes, pid, self) && (client == self || !below(processes, pid, client)):
			// The process has what its children had used that are gone.
			u.server += p.own + p.gone
		}
	}
	if client != self { // a child of ours, which was counted as such
		u.objects, u.bytes = 0, 0
	}
	return u
}

// A process has a parent, and has used time itself and through children that are gone.
type process struct {
	parent    int
	own, gone time.Duration
}

// below reports whether a process is a descendant of another.
func below(all map[int]process, pid, top int) bool {
	for pid > 1 {
		if pid = all[pid].parent; pid == top {
			return true
		}
	}
	return false
}

// processTimes returns what all processes of this machine have used.
func processTimes() map[int]process {
	found := map[int]process{}
	entries, _ := os.ReadDir("/proc") // there is none on other systems
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		// The name is in parentheses, and may have any letters.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		number := func(i int) int {
			n, _ := strconv.Atoi(fields[i])
			return n
		}
		const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Linux runs today
		ticks := func(i int) time.Duration { return time.Duration(number(i)) * tick }
		found[pid] = process{parent: number(1), own: ticks(11) + ticks(12), gone: ticks(13) + ticks(14)}
	}
	return found
}

// loadAverage is the machine's load average of the last minute; 0 where it is not known.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}
