package family

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes orphans among the descendants children of this process.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

func attributes(atDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: atDeath}
}

// reap waits for children, also for those that were adopted, until there are none, or they are another's.
func (f *Family) reap() {
	for {
		// A look that does not reap, so that mu is not held while nothing happens.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		f.mu.Lock()
		if f.left {
			f.mu.Unlock()
			return
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.ECHILD) {
			close(f.Over)
			f.mu.Unlock()
			return
		}
		if err == nil && pid > 0 {
			f.note(pid, status)
		}
		f.mu.Unlock()
	}
}

// killOnce kills all that are there now but one. What they were about to start comes to this process, and to the next call.
// The caller holds mu.
func (f *Family) killOnce(but int) {
	select {
	case <-f.Ended: // nothing keeps the number of an empty group from being used again
	default:
		if but != f.pid {
			_ = syscall.Kill(-f.pid, syscall.SIGKILL)
		}
	}
	for _, p := range descendants(os.Getpid()) {
		if p.PID != but {
			_ = syscall.Kill(p.PID, syscall.SIGKILL) // EPERM is a set-user-ID program
		}
	}
}

// signalAll sends a signal to all processes of the family. The caller holds mu.
func (f *Family) signalAll(s syscall.Signal) {
	for _, p := range descendants(os.Getpid()) {
		_ = syscall.Kill(p.PID, s)
	}
}

// A Process is one that is left.
type Process struct {
	PID  int
	Name string
}

// Left returns the processes of the family.
func (f *Family) Left() []Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return descendants(os.Getpid())
}

// descendants returns the processes that come from one, without those that are dead and not yet reaped. The list may miss
// what is being started. Not all kernels have /proc/PID/task/TID/children, and it leaves out siblings of processes that end.
func descendants(of int) (list []Process) {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	parents := map[int]int{}
	live := map[int]string{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state parent …, where the name may have anything in it
		open, closing := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if open < 0 || closing < open {
			continue
		}
		fields := bytes.Fields(text[closing+1:])
		if len(fields) < 2 {
			continue
		}
		parents[pid], _ = strconv.Atoi(string(fields[1]))
		if state := fields[0][0]; state != 'Z' && state != 'X' {
			live[pid] = string(text[open+1 : closing])
		}
	}
	for pid, name := range live {
		steps := 0
		for at := parents[pid]; at > 1 || at == of; at = parents[at] {
			if at == of {
				list = append(list, Process{pid, name})
				break
			}
			if steps++; steps > len(parents) {
				break // parents were read at different times
			}
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
