package family

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Process is a process of the family that is left.
type Process struct {
	PID  int
	Name string
	born uint64 // what tells it from a later process with its number
}

// signal sends a signal to the process, and to no other: its own parent may have reaped it since it was found, and its
// number may be another's. The descriptor that is opened here stands for one process for good, so the birth of the
// process is looked at after that. Where the kernel has no such descriptors (before Linux 5.3, or where a filter of a
// container refuses them), nothing but the time between that look and kill is left.
func (p Process) signal(s syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if bornAt(p.PID) != p.born {
		return
	}
	if err != nil || unix.PidfdSendSignal(fd, s, nil, 0) != nil {
		_ = syscall.Kill(p.PID, s) // EPERM is a set-user-ID program
	}
}

// A sight is what /proc/PID/stat says of a process.
type sight struct {
	name   string
	state  byte
	parent int
	born   uint64 // in ticks of 10 ms since the boot: nobody goes through all numbers in one
}

// see looks at a process. A dead process that is not yet reaped is seen, too.
func see(pid int) (s sight, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	// pid (name) state parent …, where the name may have anything in it
	open, closing := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || closing < open {
		return s, false
	}
	const state, parent, born = 0, 1, 19
	fields := bytes.Fields(text[closing+1:])
	if len(fields) <= born {
		return s, false
	}
	s.name, s.state = string(text[open+1:closing]), fields[state][0]
	if s.parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return s, false
	}
	s.born, err = strconv.ParseUint(string(fields[born]), 10, 64)
	return s, err == nil
}

func (s sight) lives() bool { return s.state != 'Z' && s.state != 'X' }

// bornAt says when a process was started, and 0 if there is none. It never says so of two processes with the same
// number.
func bornAt(pid int) uint64 {
	s, _ := see(pid)
	return s.born
}

// descendants returns the processes that come from a given process, without dead processes that are not yet reaped. The
// caller sees to it that the given process is not reaped meanwhile. The list may miss a process that is being started,
// or has just lost its parent. Not all kernels have /proc/PID/task/TID/children, and it leaves out siblings of
// processes that end.
//
// Nothing else is ever in it, though processes are looked at one after the other, and a number that was a parent's may
// be another's when its turn comes. So each process that seems to come from it is looked at a second time, the farthest
// first. Its parent of that moment was looked at before and is looked at again after. If that is the same process both
// times, it was there in that moment, and the parent.
func descendants(of int) (list []Process) {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	first := map[int]sight{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := see(pid); ok { // it may have ended meanwhile
				first[pid] = s
			}
		}
	}
	far := map[int]int{} // how many generations a process is away
	var pids []int
	for pid := range first {
		steps := 1
		at := first[pid].parent
		for ; at != of && at > 1 && steps <= len(first); at = first[at].parent { // without end if the parents are of different times
			steps++
		}
		if at == of {
			far[pid] = steps
			pids = append(pids, pid)
		}
	}
	slices.SortFunc(pids, func(a, b int) int { return cmp.Compare(far[b], far[a]) })
	second := map[int]sight{}
	for _, pid := range pids {
		if s, ok := see(pid); ok && s.born == first[pid].born {
			second[pid] = s
		}
	}
	slices.Reverse(pids)
	sure := map[int]bool{}
	for _, pid := range pids {
		s, ok := second[pid]
		// A parent that is no nearer was looked at too early.
		sure[pid] = ok && (s.parent == of || sure[s.parent] && far[s.parent] < far[pid])
		if sure[pid] && s.lives() {
			list = append(list, Process{pid, s.name, s.born})
		}
	}
	return list
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
