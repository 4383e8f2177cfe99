//go:build unix

// Command mortal writes down that it lives, every few milliseconds, and so do all that it starts:
//
//	mortal DIRECTORY deaf|polite [ROLE]
//
// Only a polite one ends when it is told to.
package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/farsync/farsync/cmd/farsync/internal/guard"
)

func main() {
	dir, manner, role := os.Args[1], os.Args[2], "command"
	if len(os.Args) > 3 {
		role = os.Args[3]
	}
	if manner == "deaf" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	child := func(role string, session bool) {
		cmd := exec.Command("/proc/self/exe", dir, manner, role)
		cmd.Args[0] = os.Args[0]
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
		check(cmd.Start())
	}
	switch role {
	case "command":
		child("child", false)
		child("session", true)
		child("fork", false)
	case "child":
		child("grandchild", false)
	case "fork":
		child("daemon", true)
		return
	}
	f, err := os.Create(filepath.Join(dir, role))
	check(err)
	record := make([]byte, 24)
	for range time.Tick(5 * time.Millisecond) {
		binary.LittleEndian.PutUint64(record, uint64(os.Getpid()))
		binary.LittleEndian.PutUint64(record[8:], uint64(os.Getppid()))
		binary.LittleEndian.PutUint64(record[16:], uint64(guard.Now()))
		_, err := f.WriteAt(record, 0)
		check(err)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
