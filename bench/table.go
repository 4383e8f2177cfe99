package main

import (
	"fmt"
	"slices"
	"strings"
)

// table returns everything that was measured, a row for each peer of each scene.
func table(all []result) string {
	var t strings.Builder
	t.WriteString("| scene | | acq/s | farsync × | requests, replies | bytes out, in | CPU µs, client + server | objects, bytes allocated | Jain |\n" +
		"|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range all {
		for i, p := range r.Peers {
			ratio := "1"
			if i > 0 {
				ratio = figure(r.Peers[0].times(p))
			}
			fmt.Fprintf(&t, "| %s | %s | %s | %s | %s |\n", r.Scene, p.Name, whole(p.rate()), ratio, strings.Join(p.costs(), " | "))
		}
	}
	return t.String()
}

// costs are the cells of what one acquisition takes beside time.
func (p peerResult) costs() []string {
	messages, bytes := "", ""
	if w := p.Wire; w != nil {
		messages = fmt.Sprintf("%.1f, %.1f", w.Requests, w.Replies)
		bytes = fmt.Sprintf("%.0f, %.0f", w.Sent, w.Received)
	}
	processor, allocated := "", ""
	if client, server := p.median(func(l lap) float64 { return l.Client }), p.median(func(l lap) float64 { return l.Server }); client > 0 {
		processor = fmt.Sprintf("%s + %s", whole(client), whole(server))
	}
	if objects := p.median(func(l lap) float64 { return l.Objects }); objects > 0 {
		allocated = fmt.Sprintf("%s, %s", whole(objects), whole(p.median(func(l lap) float64 { return l.Bytes })))
	}
	spread := fmt.Sprintf("%.2f", p.median(func(l lap) float64 { return l.Jain }))
	failed := int64(0)
	for _, l := range p.Laps {
		failed += l.Failed
	}
	if failed > 0 {
		spread += fmt.Sprintf(", %d failed", failed)
	}
	return []string{messages, bytes, processor, allocated, spread}
}

// figure prints a ratio with as many digits as mean something.
func figure(x float64) string {
	switch {
	case x == 0:
		return ""
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	default:
		return whole(x)
	}
}

// whole prints a number without a fraction, with commas.
func whole(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// of returns the results of a body on a store; on all stores if that is empty.
func (f figures) of(store, body string) (list []result) {
	for _, r := range f.Scenes {
		if (store == "" || r.Store == store) && r.Body == body {
			list = append(list, r)
		}
	}
	return list
}

// unmeasured stands where there is no figure.
const unmeasured = "Not measured yet.\n"

// contenders is the table of a store: how often farsync acquires while each peer acquires once.
func (f figures) contenders(store string) string {
	list := f.of(store, contended)
	if len(list) == 0 {
		return unmeasured
	}
	var peers []string
	for _, r := range list {
		for _, p := range r.Peers[1:] {
			if !slices.Contains(peers, p.Name) {
				peers = append(peers, p.Name)
			}
		}
	}
	var t strings.Builder
	fmt.Fprintf(&t, "| | contenders | farsync, acq/s | × %s |\n|---|--:|%s\n", strings.Join(peers, " | × "), strings.Repeat("--:|", len(peers)+1))
	for _, r := range list {
		cells := []string{r.Setting, fmt.Sprint(r.N), whole(r.Peers[0].rate())}
		for _, name := range peers {
			cell := ""
			if p, is := r.find(name); is {
				cell = figure(r.Peers[0].times(p))
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(&t, "| %s |\n", strings.Join(cells, " | "))
	}
	return t.String()
}

// costs is the table of what an acquisition takes beside time, free and in a crowd.
func (f figures) costs(store string) string {
	var t strings.Builder
	t.WriteString("| contenders | | requests, replies | bytes out, in | CPU µs, client + server | objects, bytes allocated | Jain |")
	ruler := "\n|--:|---|--:|--:|--:|--:|--:|"
	if ofDatabase(store) {
		t.WriteString(" connections |")
		ruler += "--:|"
	}
	t.WriteString(ruler + "\n")
	for _, r := range f.of(store, contended) {
		if r.Setting != "" || r.N != 1 && r.N != crowd {
			continue
		}
		for _, p := range r.Peers {
			cells := p.costs()
			if ofDatabase(store) {
				connections := ""
				if p.Wire != nil {
					connections = fmt.Sprintf("%.1f", p.Wire.Connections)
				}
				cells = append(cells, connections)
			}
			fmt.Fprintf(&t, "| %d | %s | %s |\n", r.N, p.Name, strings.Join(cells, " | "))
		}
	}
	return t.String()
}

// bodies is the table of all else that is done, on all stores.
func (f figures) bodies() string {
	var t strings.Builder
	t.WriteString("| | store | farsync, acq/s | beside | farsync × |\n|---|---|--:|---|--:|\n")
	for _, b := range []struct{ body, text string }{
		{goroutines, "64 goroutines of a process"},
		{semaphore, "a semaphore of 8 units, 64 contenders"},
		{readers, "64 readers and writers, a tenth writes"},
		{guarded, "Lock, a guarded write, Release"},
	} {
		for _, r := range f.of("", b.body) {
			rate := whole(r.Peers[0].rate())
			if r.Load > busy {
				rate = "busy" // the stores are measured at different times, and this column is read downward
			}
			fmt.Fprintf(&t, "| %s | %s | %s |", b.text, title(r.Store), rate)
			if len(r.Peers) == 1 {
				t.WriteString(" | |\n")
			}
			for i, p := range r.Peers[1:] {
				if i > 0 {
					t.WriteString("| | | |")
				}
				fmt.Fprintf(&t, " %s | %s |\n", p.Name, figure(r.Peers[0].times(p)))
			}
		}
	}
	return t.String()
}

// queues is the table of joins behind long queues.
func (f figures) queues() string {
	var t strings.Builder
	fmt.Fprintf(&t, "| behind | %s |\n|---|%s\n", strings.Join(lengthNames(), " | "), strings.Repeat("--:|", len(lengths)))
	for _, store := range stores {
		list := f.of(store, queue)
		if len(list) == 0 {
			continue
		}
		for i, p := range list[0].Peers {
			time, bytes := fmt.Sprintf("| %s, %s: time", title(store), p.Name), "| … bytes received"
			counted := false
			for _, n := range lengths {
				timeCell, bytesCell := "", ""
				for _, r := range list {
					if r.N != n || i >= len(r.Peers) || r.Peers[i].rate() == 0 {
						continue
					}
					timeCell = figure(list[0].Peers[i].rate() / r.Peers[i].rate())
					if w := r.Peers[i].Wire; w != nil {
						bytesCell, counted = whole(w.Received), true
					}
				}
				time, bytes = time+" | "+timeCell, bytes+" | "+bytesCell
			}
			t.WriteString(time + " |\n")
			if counted {
				t.WriteString(bytes + " |\n")
			}
		}
	}
	return t.String()
}

func lengthNames() (names []string) {
	for _, n := range lengths {
		names = append(names, whole(float64(n)))
	}
	return names
}

// stores are all of them, in the order of the documents.
var stores = []string{onEtcd, onZooKeeper, onRedis, onPostgres, onMySQL, onSQLite}

// ofDatabase reports whether what contends has connections of a database, which are few.
func ofDatabase(store string) bool { return store == onPostgres || store == onMySQL }

// title is how a store spells its name.
func title(store string) string {
	return map[string]string{
		onEtcd: "etcd", onZooKeeper: "ZooKeeper", onRedis: "Redis", onPostgres: "PostgreSQL", onMySQL: "MariaDB", onSQLite: "SQLite",
	}[store]
}

// busy is a load average that the bench alone does not cause.
const busy = 10

const minute = "2006-01-02 15:04"

// conditions says where and when the figures were taken.
func (f figures) conditions() string {
	if len(f.Scenes) == 0 {
		return unmeasured
	}
	least, most := f.Scenes[0].Load, f.Scenes[0].Load
	from, to := f.Scenes[0].When, f.Scenes[0].When
	rounds, shortest := len(f.Scenes[0].Peers[0].Laps), f.Scenes[0].Window
	for _, r := range f.Scenes {
		least, most = min(least, r.Load), max(most, r.Load)
		if r.When.Before(from) {
			from = r.When
		}
		if r.When.After(to) {
			to = r.When
		}
		rounds, shortest = min(rounds, len(r.Peers[0].Laps)), min(shortest, r.Window)
	}
	text := fmt.Sprintf("%s.\n%s of each scene at least, of %v s at least for each peer;\ntaken from %s to %s UTC, at a load average of %.0f to %.0f.",
		f.Machine, plural(rounds, "round"), shortest, from.Format(minute), to.Format(minute), least, most)
	if most > busy {
		text += "\nThe machine was busy with other work meanwhile: take no ratio between 0.7 and 1.4 for a difference."
	}
	return text + "\n"
}
