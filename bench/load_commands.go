package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// commandLoads are processes of farsync run at once on one lock, as of a crontab of many machines at the full hour, beside as many of
// flock.
func commandLoads(store string) (list []load) {
	for _, waits := range []bool{false, true} {
		for _, n := range []int{20, 64, 150} {
			name, ours, stock := "run-n", []string{"-n"}, []string{"-n"}
			if waits {
				name, ours, stock = "run-w-30s", []string{"-w", "30s"}, []string{"-w", "30"}
			}
			list = append(list, load{store, fmt.Sprintf("commands/%s/processes=%d", name, n), func(ctx context.Context, l *lab) (o outcome, err error) {
				n := min(n, l.runs)
				if l.binary == "" {
					if l.binary, err = buildCommand(ctx); err != nil {
						return o, err
					}
				}
				o.served, o.least, o.asked = true, int64(n), "flock"
				o.ours, err = l.onStage(0, func(on *stage) (account, error) {
					args := append([]string{"run", "-q", "--store", commandURL(on)}, ours...)
					return atOnce(ctx, n, waits, l.binary, append(args, on.path, "--", "true")...), nil
				})
				if err != nil {
					return o, err
				}
				lock := l.binary + ".lock"
				o.stock = atOnce(ctx, n, waits, "flock", append(append([]string{"-E", "75"}, stock...), lock, "true")...)
				return o, os.Remove(lock)
			}})
		}
	}
	return list
}

// atOnce runs a command in n processes at once, and counts the processes that end as they should: COMMAND was run, or the lock was taken where
// nobody was to wait.
func atOnce(ctx context.Context, n int, waits bool, name string, args ...string) account {
	const taken = 75
	a := account{callers: n}
	each := make([]account, n)
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
			exit := new(exec.ExitError)
			if err == nil || !waits && errors.As(err, &exit) && exit.ExitCode() == taken {
				each[i].grants++
				return
			}
			each[i].failed(fmt.Errorf("%w: %s", err, out))
		})
	}
	all.Wait()
	a.took = time.Since(began)
	a.add(each)
	return a
}

// commandURL is what the command takes for a stage.
func commandURL(on *stage) string {
	at := on.at[0]
	switch on.site.spec.store {
	case onZooKeeper:
		return "zk://" + at
	case onRedis:
		return "redis://" + at + "?fresh=1"
	case onPostgres:
		return "postgres://postgres@" + at + "/postgres"
	case onMySQL:
		return "mysql://root@" + at + "/test"
	case onSQLite:
		return "sqlite:" + at
	}
	return "etcd://" + at
}

// buildCommand builds the command farsync of the tree in which this program is run.
func buildCommand(ctx context.Context) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "cmd", "farsync", "main.go")); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			return "", errors.New("run it in the tree of farsync: there is no cmd/farsync above this folder")
		}
		root = filepath.Dir(root)
	}
	file, err := os.CreateTemp("", "farsync-bench-command-")
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", file.Name(), "./cmd/farsync")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("%w: %s", err, out), os.Remove(file.Name()))
	}
	return file.Name(), nil
}
