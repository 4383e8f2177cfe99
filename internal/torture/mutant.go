//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A mutant is farsync with a mistake, as it is known from other locks. It is compiled from the sources as they are, with a few
// words replaced.
type mutant struct {
	name      string
	store     string
	primitive string
	tiers     []string // nil: all
	edits     []edit
}

// An edit replaces words that stand in a file once.
type edit struct{ file, old, by string }

var mutants = []mutant{
	{
		name: "the deadline counts from when the answer arrived", store: onEtcd, primitive: mutex, tiers: []string{tierWire},
		edits: []edit{
			{"etcd/keepalive.go", "s.ttl, s.from = ttl, sent", "s.ttl, s.from = ttl, time.Now()"},
		},
	},
	{
		name: "no deadline: the session is over when the server says so", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/session.go", "return now.Before(in.deadline)", "return true"}},
	},
	{
		name: "the holder does not look at the clock", store: onEtcd, primitive: mutex, tiers: []string{tierClient},
		edits: []edit{{"recipe/hold.go", "_ = h.grant.in().errNow()", ""}},
	},
	{
		name: "a waiter does not look whether its own entry is there", store: onEtcd, primitive: mutex, tiers: []string{tierEntry},
		edits: []edit{
			{"etcd/queue.go", "own.CreateRevision != e.Revision {\n\t\treturn driver.View{}, driver.ErrGone", "own.CreateRevision != e.Revision {\n\t\treturn v, nil"},
		},
	},
	{
		name: "a delete removes the first entry, whosever it is", store: onEtcd, primitive: mutex,
		edits: []edit{{"etcd/queue.go", "resp, err := s.do(ctx, clientv3.OpDelete(e.ID))", `key := e.ID
	if oldest, err := s.get(ctx, prefix(e.Queue), clientv3.WithFirstCreate()...); err == nil && len(oldest.Kvs) > 0 {
		key = string(oldest.Kvs[0].Key)
	}
	resp, err := s.do(ctx, clientv3.OpDelete(key))`}},
	},
	{
		name: "a waiter that is notified holds", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/wait.go", "on, v = s.look(ctx, p, r, registerIn(before))", "on, v = nil, verdict{fate: done}"}},
	},
	{
		name: "a turn that is handed off has the token of the one before", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/hold.go", "h.grant.place.Load().entry.Revision, h.turn }", "h.grant.place.Load().entry.Revision, 0 }"}},
	},
	{
		name: "what could not be removed stays", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/place.go", "s.background(func() {\n\t\tlogged := false", "_ = (func() {\n\t\tlogged := false"}},
	},
	{
		name: "the token is the sequence of the node", store: onZooKeeper, primitive: mutex,
		edits: []edit{
			{"zk/create.go", "e.ID, e.Revision, e.Version = id, creating.zxid, 1", `e.ID, e.Revision, e.Version = id, creating.zxid, 1
	if sequence, wrong := strconv.ParseInt(e.ID[max(0, len(e.ID)-10):], 10, 64); wrong == nil {
		e.Revision = sequence + 1
	}`},
			{"zk/create.go", "\t\"strings\"\n", "\t\"strconv\"\n\t\"strings\"\n"},
		},
	},
	{
		name: "the deadline counts from when the answer arrived", store: onZooKeeper, primitive: mutex, tiers: []string{tierWire},
		edits: []edit{{"zk/link.go", "l.proved, l.renewed = l.renewed, r.sent", "l.proved, l.renewed = time.Now(), time.Now()"}},
	},
	{
		name: "a permit takes one unit, whatever was asked for", store: onSQLite, primitive: semaphore,
		edits: []edit{{"recipe/rule.go", "\t\troom -= other.Units\n", "\t\troom--\n"}},
	},
	{
		name: "readers do not wait for writers", store: onSQLite, primitive: rwmutex,
		edits: []edit{{"recipe/rule.go", "\t\t\tif other.Kind != driver.Read {\n", "\t\t\tif other.Kind != driver.Read && other.Kind != driver.Write {\n"}},
	},
}

// build compiles the workers of a mutant of the module in root, and returns their executable.
func (m mutant) build(ctx context.Context, root, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, e := range m.edits {
		original := filepath.Join(root, filepath.FromSlash(e.file))
		from := original
		if changed, ok := overlay.Replace[original]; ok {
			from = changed
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		changed, err := e.apply(string(text))
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(changed), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[original] = to
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list, executable := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "worker")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", executable, "./internal/torture")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", m.name, err, out)
	}
	return executable, nil
}

var errEdit = errors.New("the words to replace must stand in the file once")

func (e edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.old); n != 1 {
		return "", fmt.Errorf("%s: %w, and not %d times: %q", e.file, errEdit, n, e.old)
	}
	return strings.Replace(text, e.old, e.by, 1), nil
}

// moduleRoot returns the directory of the module that the present directory is in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}
