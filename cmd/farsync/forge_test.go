//go:build unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/cmd/farsync/internal/guard"
)

// TestCommandCannotChangeWhenItIsKilled: until when it may live, and which group is to be killed, is in memory that it can read.
func TestCommandCannotChangeWhenItIsKilled(t *testing.T) {
	t.Parallel()
	p := start(t, file(t), "run", "/x", "--", "forger")
	require.Equal(t, 3, p.code(t))
	require.Equal(t, "read\n", p.out.String())
}

// forger is a COMMAND that says in which ways it gets at the memory by FARSYNC_FD, and exits with 3.
func forger() {
	inherited, err := strconv.Atoi(os.Getenv(guard.Variable))
	check(err)
	if _, err := guard.OpenWord(inherited); err == nil {
		fmt.Println("read")
	}
	by := map[string]int{"inherited": inherited}
	// On Linux all that its owner may.
	if fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(inherited), unix.O_RDWR, 0); err == nil {
		by["opened"] = fd
	}
	for name, fd := range by {
		size := os.Getpagesize()
		if _, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			fmt.Println(name, "mapped")
		}
		if memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED); err == nil {
			if unix.Mprotect(memory, unix.PROT_READ|unix.PROT_WRITE) == nil {
				fmt.Println(name, "mapped, and then made writable")
			}
		}
		if _, err := unix.Pwrite(fd, make([]byte, 8), 8); err == nil {
			fmt.Println(name, "written")
		}
		if unix.Ftruncate(fd, int64(2*size)) == nil {
			fmt.Println(name, "grown")
		}
		if unix.Ftruncate(fd, 0) == nil {
			fmt.Println(name, "shortened")
		}
	}
	os.Exit(3)
}
