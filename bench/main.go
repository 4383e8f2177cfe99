//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/farsync/farsync/embedtest"
)

func main() {
	embedtest.Child()
	beVictim()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what the flags name, prints the tables of it, and writes the documents.
func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 5, "rounds of each scene; figures are medians over them")
	only := flag.String("only", "", "a pattern: the scenes whose names it matches, such as etcd/contended or N=64$; see -list")
	window := flag.Duration("window", time.Second, "for how long a peer is measured in a round")
	docs := flag.String("docs", "", "the folder of PERFORMANCE.md, into which figures are written; empty writes none")
	list := flag.Bool("list", false, "prints the names of the scenes, and for how long all of them would take")
	render := flag.Bool("render", false, "measures nothing, and writes the documents from the figures that are kept")
	loaded := flag.Bool("load", false, "has callers give up and crowds come instead, and prints a table for each store; see load.go")
	brief := flag.Bool("short", false, "with -load: for 3 seconds each, and crowds of a tenth, to try it")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *rounds < 1 || flag.NArg() > 0 {
		return errors.New("it takes flags alone, and one round at least")
	}
	if *loaded {
		s := wholeScale
		if *brief {
			s = shortScale
		}
		return runLoads(ctx, pattern, s, *list)
	}
	p := pace{rounds: *rounds, warm: *window / 4, window: *window, javaWarm: 10 * *window, setUp: 500 * time.Millisecond}
	var chosen []scene
	var total time.Duration
	for _, s := range plan() {
		if pattern.MatchString(s.name()) && !*render {
			chosen = append(chosen, s)
			total += p.takes(s)
		}
	}
	if *list {
		for _, s := range chosen {
			fmt.Println(s.name())
		}
	}
	fmt.Fprintf(os.Stderr, "bench: %s, about %v\n", plural(len(chosen), "scene"), total.Round(time.Minute))
	if *list {
		return nil
	}
	if len(chosen) == 0 && !*render {
		return fmt.Errorf("no scene has a name like %q", *only)
	}
	kept := figures{}
	if *docs != "" {
		if kept, err = loadFigures(filepath.Join(*docs, figuresFile)); err != nil {
			return err
		}
	}
	measured, err := measureAll(ctx, chosen, p, total, func(r result) error {
		kept.add(r, plan())
		if *docs == "" {
			return nil
		}
		return kept.save(filepath.Join(*docs, figuresFile))
	})
	fmt.Print(table(measured))
	if *docs != "" {
		err = errors.Join(err, document(*docs, kept))
	}
	return err
}

// measureAll measures one scene after the other. A scene that fails is reported, and the next one measured.
func measureAll(ctx context.Context, scenes []scene, p pace, total time.Duration, done func(result) error) (all []result, err error) {
	began := time.Now()
	var on *site
	var planned time.Duration
	closeSite := func() {
		if on != nil {
			err = errors.Join(err, on.close())
			on = nil
		}
	}
	defer closeSite()
	for i, s := range scenes {
		if on == nil || on.spec != s.site() {
			closeSite()
			var openErr error
			if on, openErr = openSite(ctx, s.site()); openErr != nil {
				return all, errors.Join(err, openErr)
			}
		}
		// The scenes so far took more or less than was planned, and the others will likewise.
		left := total - planned
		if planned > 0 {
			left = time.Duration(float64(left) * float64(time.Since(began)) / float64(planned))
		}
		said := fmt.Sprintf("[%d of %d, %v left] %s", i+1, len(scenes), left.Round(10*time.Second), s.name())
		progress := func(what string) { fmt.Fprintf(os.Stderr, "\r\x1b[K%s: %s", said, what) }
		if !terminal() {
			fmt.Fprintln(os.Stderr, said)
			progress = func(string) {}
		}
		r, sceneErr := measure(ctx, s, on, p, progress)
		planned += p.takes(s)
		if ctx.Err() != nil {
			return all, errors.Join(err, ctx.Err())
		}
		if sceneErr == nil {
			sceneErr = done(r)
			all = append(all, r)
		}
		if sceneErr != nil {
			fmt.Fprintf(os.Stderr, "\nbench: %s: %v\n", s.name(), sceneErr)
			err = errors.Join(err, fmt.Errorf("%s: %w", s.name(), sceneErr))
			closeSite() // it may be the servers
		}
	}
	fmt.Fprintf(os.Stderr, "\nbench: done in %v\n", time.Since(began).Round(time.Second))
	return all, err
}

// terminal reports whether progress is shown on a terminal, where a line can be written over.
func terminal() bool {
	info, err := os.Stderr.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strings.TrimSpace(fmt.Sprint(n, " ", what))
}
