// Command report reads what go test -json writes, prints each test as it ends, and the whole output of a test that
// failed.
//
//	go test -json ./internal/etcdtest | report -to FILE
//
// FILE gets a line with the counts, and one for each test that failed or was not judged, with the first line that says
// why. The exit code is 1 if a test failed, 3 if none did and one was not judged.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/farsync/farsync/internal/suite"
)

func main() {
	to := flag.String("to", "", "FILE for the counts and the tests that failed")
	flag.Parse()
	r := newReport(os.Stdout)
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	if err := os.WriteFile(*to, []byte(r.summary()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	os.Exit(r.code())
}

// An event is one of cmd/test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build, in place of Package
	Test       string
	Elapsed    float64
	Output     string
}

// A test is what is known of one, or of a package beside its tests, or of a build, where its name is empty.
type test struct {
	output []string
	parts  bool   // a part of it failed
	within string // of a package: which test had not ended, and why
}

type key struct{ pack, name string }

type report struct {
	to      io.Writer
	tests   map[key]*test
	order   []key // of the tests that failed
	counted map[string]int
}

func newReport(to io.Writer) *report {
	return &report{to: to, tests: map[key]*test{}, counted: map[string]int{}}
}

func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil { // of go itself, in words
				e = event{Action: "output", Output: line}
			}
			r.take(e)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (r *report) take(e event) {
	k := key{e.Package + e.ImportPath, e.Test}
	t := r.tests[k]
	if t == nil {
		t = new(test)
		r.tests[k] = t
	}
	switch e.Action {
	case "output", "build-output":
		t.output = append(t.output, e.Output)
		if e.Test == "" {
			fmt.Fprint(r.to, e.Output)
		}
	case "pass", "skip", "fail":
		if e.Test != "" && !strings.Contains(e.Test, "/") { // with its parts
			r.counted[e.Action]++
			fmt.Fprintf(r.to, "%s %s (%.1f s)\n", e.Action, e.Test, e.Elapsed)
		}
		if e.Action != "fail" {
			delete(r.tests, k)
			return
		}
		r.fail(k, t)
	case "build-fail":
		r.fail(k, t)
	}
}

// fail notes a failure, and that the test around this one failed by it. A part ends before the whole.
func (r *report) fail(k key, t *test) {
	r.order = append(r.order, k)
	if k.name == "" {
		r.broken(k.pack, t)
		return
	}
	fmt.Fprint(r.to, strings.Join(t.output, ""))
	whole := key{pack: k.pack}
	if at := strings.LastIndex(k.name, "/"); at >= 0 {
		whole.name = k.name[:at]
	}
	if w := r.tests[whole]; w != nil {
		w.parts = true
	}
}

// broken prints the tests that had not ended when their package did, by a panic or a time-out: they are what it failed
// of.
func (r *report) broken(pack string, whole *test) {
	for k, t := range r.tests {
		if k.pack != pack || k.name == "" || slices.Contains(r.order, k) {
			continue
		}
		fmt.Fprint(r.to, strings.Join(t.output, ""))
		if why, _ := reason(t.output); why != "" {
			whole.within = "in " + k.name + ": " + why
		}
	}
}

// A verdict is what came of a failure: why it failed, and whether it says itself that it is not judged.
type verdict struct {
	name, why string
	not       bool
}

// verdicts returns the failures, without failures that are failures of their parts alone.
func (r *report) verdicts() []verdict {
	var all []verdict
	for _, k := range r.order {
		t := r.tests[k]
		why, asserted := reason(t.output)
		if t.within != "" {
			why, asserted = t.within, true
		}
		if t.parts && !asserted || k.name == "" && why == "" && len(all) > 0 {
			continue
		}
		name := k.name
		if name == "" {
			name = strings.TrimSpace("package " + k.pack)
		}
		all = append(all, verdict{name, why, k.name != "" && slices.ContainsFunc(t.output, func(line string) bool {
			return strings.Contains(line, suite.NotJudged)
		})})
	}
	return all
}

// reason returns the first line of a test's output that says why it failed, an assertion before a message.
func reason(output []string) (why string, asserted bool) {
	for i, line := range output {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, "Error:"); is {
			rest = strings.TrimSpace(rest)
			if strings.HasSuffix(rest, ":") && i+1 < len(output) {
				rest += " " + strings.TrimSpace(output[i+1])
			}
			return rest, true
		}
		said := strings.Contains(line, ".go:") && !strings.HasSuffix(line, ":") || strings.HasPrefix(line, "panic: ")
		if why == "" && said && !strings.Contains(line, suite.NotJudged) {
			why = line
		}
	}
	return why, false
}

func (r *report) code() int {
	code := 0
	for _, v := range r.verdicts() {
		if !v.not {
			return 1
		}
		code = 3
	}
	return code
}

func (r *report) summary() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d passed, %d failed, %d skipped\n", r.counted["pass"], r.counted["fail"], r.counted["skip"])
	for _, v := range r.verdicts() {
		name := v.name
		if v.not {
			name += " (not judged)"
		}
		fmt.Fprintf(&s, "  %s: %s\n", name, v.why)
	}
	return s.String()
}
