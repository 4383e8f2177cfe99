package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed Curator.java
var curatorSource []byte

const (
	curatorJar = "/usr/share/java/curator-recipes.jar" // its manifest names what else it needs
	slf4jJar   = "/usr/share/java/slf4j-simple.jar"
)

// A curator is a process of Java with teams of threads that lock with Curator.
type curator struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	teams   int
}

// curatorOf returns the Curator of a site, and starts it if there is none.
func curatorOf(s *site) (*curator, error) {
	if s.java != nil {
		return s.java, nil
	}
	for _, file := range []string{curatorJar, slf4jJar} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("no Java Curator found: apt-get install libcurator-recipes-java libslf4j-java (%w)", err)
		}
	}
	dir, err := os.MkdirTemp("", "farsync-bench-")
	if err != nil {
		return nil, err
	}
	source := filepath.Join(dir, "Curator.java")
	if err := os.WriteFile(source, curatorSource, 0o600); err != nil {
		return nil, err
	}
	c := &curator{command: exec.Command("java",
		"-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", curatorJar+":"+slf4jJar, source)}
	c.command.Stderr = os.Stderr
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error {
		_ = c.in.Close()             // ends it
		_ = c.command.Process.Kill() // a thread may wait for a lock
		_ = c.command.Wait()
		return os.RemoveAll(dir)
	})
	s.java = c
	return c, nil
}

// answer returns the next line of a team, without its name.
func (c *curator) answer(team string) (string, error) {
	for c.out.Scan() {
		name, said, _ := strings.Cut(c.out.Text(), " ")
		if name != team {
			continue
		}
		if reason, is := strings.CutPrefix(said, "error "); is {
			return "", errors.New("curator: " + reason)
		}
		return said, nil
	}
	return "", errors.Join(errors.New("curator: it has ended"), c.out.Err())
}

func (c *curator) ask(team string, words ...any) (string, error) {
	if _, err := fmt.Fprintln(c.in, words...); err != nil {
		return "", err
	}
	return c.answer(team)
}

// threads is a team of Java's threads.
type threads struct {
	*curator
	name string
}

// curators are threads with a client each, or with one for all of them, that lock what kind names.
func curators(name, clients, kind string) peer {
	return peer{name, func(_ context.Context, on *stage, n int) (team, error) {
		c, err := curatorOf(on.site)
		if err != nil {
			return nil, err
		}
		c.teams++
		t := threads{c, fmt.Sprint("team", c.teams)}
		if _, err := c.ask(t.name, "open", t.name, strings.Join(on.at, ","), n, clients, kind, on.path); err != nil {
			return nil, err
		}
		on.onClose(func() { _, _ = c.ask(t.name, "close", t.name) })
		return t, nil
	}}
}

func (t threads) pid() int { return t.command.Process.Pid }

func (t threads) run(_ context.Context, warm, window time.Duration, edge func()) ([]int64, error) {
	if _, err := t.ask(t.name, "run", t.name, warm.Milliseconds(), window.Milliseconds()); err != nil {
		return nil, err
	}
	edge()
	if _, err := t.answer(t.name); err != nil {
		return nil, err
	}
	edge()
	said, err := t.answer(t.name)
	if err != nil {
		return nil, err
	}
	var counts []int64
	for _, word := range strings.Fields(said)[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	return counts, nil
}
