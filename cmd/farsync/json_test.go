//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// TestNoNumberIsDamagedByAParserOfFloats: jq 1.6 and JavaScript read every number as a float of 64 bits, which has 53
// for the digits.
func TestNoNumberIsDamagedByAParserOfFloats(t *testing.T) {
	const large, digits = 1<<62 | 1, "4611686018427387905"
	for name, v := range map[string]any{
		"who":   whoJSON{1, []lockJSON{{Path: "/x", Participants: []userJSON{{Units: large, Token: large}}}}, nil},
		"watch": eventJSON{User: userJSON{Units: large, Token: large}}, "leader": leaderJSON{Token: large},
		"hold": holding{Token: []farsync.Token{large}}, "status": result{Token: []farsync.Token{large}}, "held": heldJSON{Token: []farsync.Token{large}},
		"break": breakJSON{Token: large}, "resize": sizeJSON{Declared: large, Size: large},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, (&app{stdout: &out}).print(v))
			var read any
			require.NoError(t, json.Unmarshal(out.Bytes(), &read))
			again, err := json.Marshal(read)
			require.NoError(t, err)
			require.Equal(t, strings.Count(out.String(), digits), strings.Count(string(again), digits), "%s", again)
		})
	}
}

// A schema is as much of JSON Schema as docs/command.schema.json uses.
type schema struct {
	Defs        map[string]*schema `json:"$defs"`
	Ref         string             `json:"$ref"`
	AnyOf       []*schema          `json:"anyOf"`
	Type        string             `json:"type"`
	Const       any                `json:"const"`
	Enum        []any              `json:"enum"`
	Pattern     string             `json:"pattern"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Dialect     string             `json:"$schema"`
}

func readSchema(t *testing.T) *schema {
	text, err := os.ReadFile("../../docs/command.schema.json")
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	s := &schema{}
	require.NoError(t, decoder.Decode(s))
	return s
}

// check returns what is wrong with a value at a place. A field that the schema does not know is wrong here, and allowed
// there.
func (s *schema) check(root *schema, at string, v any) (wrong []string) {
	say := func(format string, arguments ...any) {
		wrong = append(wrong, at+": "+fmt.Sprintf(format, arguments...))
	}
	if s.Ref != "" {
		wrong = root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, at, v)
	}
	if s.Const != nil && v != s.Const {
		say("%v is not %v", v, s.Const)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		say("%v is none of %v", v, s.Enum)
	}
	is, typed := "", s.Type
	switch v := v.(type) {
	case string:
		is = "string"
		if !regexp.MustCompile(s.Pattern).MatchString(v) {
			say("%q does not match %s", v, s.Pattern)
		}
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; typed == "integer" && v == float64(int64(v)) {
			is = "integer"
		}
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			say("%v is out of range", v)
		}
	case []any:
		is = "array"
		for i, item := range v {
			if s.Items != nil {
				wrong = append(wrong, s.Items.check(root, fmt.Sprintf("%s[%d]", at, i), item)...)
			}
		}
	case map[string]any:
		is = "object"
		for name, field := range v {
			if of := s.Properties[name]; of != nil {
				wrong = append(wrong, of.check(root, at+"."+name, field)...)
			} else if typed != "" {
				say("the schema does not have the field %s", name)
			}
		}
		for _, name := range s.Required {
			if _, there := v[name]; !there {
				say("the field %s is not there", name)
			}
		}
	}
	if typed != "" && is != typed {
		say("it is %s, not %s", is, typed)
	}
	return wrong
}

// TestJSONIsAsTheSchemaSays: the lines that stand in the manual, and what the verbs write.
func TestJSONIsAsTheSchemaSays(t *testing.T) {
	t.Parallel()
	root := readSchema(t)
	require.Len(t, root.AnyOf, 12)
	meets := func(name, text string) {
		t.Helper()
		require.Contains(t, root.AnyOf, &schema{Ref: "#/$defs/" + name})
		lines := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "{") {
				continue
			}
			var v any
			require.NoError(t, json.Unmarshal([]byte(line), &v))
			require.Empty(t, root.Defs[name].check(root, name, v), "%s", line)
			lines++
		}
		require.Positive(t, lines, "%s wrote %q", name, text)
	}
	files, err := filepath.Glob("testdata/json/*.json")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "-")
		meets(name, string(text))
	}

	// The schema names the checks that doctor makes.
	sources, err := filepath.Glob("doctor*.go")
	require.NoError(t, err)
	checks := root.Defs["doctor"].Properties["checks"].Items.Properties["check"].Enum
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`d\.(?:well|wrong)\("([a-z]+)"`).FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, checks, any(found[1]), source)
		}
	}

	store := file(t)
	does := func(code int, arguments ...string) (out, err string) {
		t.Helper()
		p := start(t, store, append([]string{"--json"}, arguments...)...)
		require.Equal(t, code, p.code(t), "%q: %s", arguments, p.err.String())
		return p.out.String(), p.err.String()
	}
	out, said := does(3, "run", "/a", "/b", "--", "sh", "-c", "farsync held --json; exit 3")
	meets("held", out)
	meets("status", said)
	out, _ = does(codeNothing, "who")
	meets("who", out)
	_, said = does(codeData, "who", "x")
	meets("error", said)
	out, _ = does(0, "version")
	meets("version", out)
	out, _ = does(0, "doctor")
	meets("doctor", out)

	holder := start(t, store, "run", "--label", "first", "/x", "--", "farsync", "run", "--limit", "2", "/s", "--", "sh", "-c", "echo go; exec sleep 600")
	until(t, "both are held", func() bool { return strings.Contains(holder.out.String(), "go") })
	waiter := start(t, store, "run", "/x", "--", "true")
	until(t, "another waits", func() bool {
		out, _ = does(0, "who", "/x")
		return strings.Contains(out, `"held":false`)
	})
	meets("who", out)
	out, _ = does(0, "who", "/")
	meets("who", out)
	_, said = does(codeTaken, "run", "-n", "/x", "--", "true")
	meets("status", said)
	out, _ = does(codeTaken, "ask", "--wait", "0.05", "/x")
	meets("ask", out)
	out, _ = does(0, "resize", "--limit", "2", "/s", "3")
	meets("resize", out)
	watch := start(t, store, "watch", "--json", "/x")
	until(t, "both are seen", func() bool { return strings.Contains(watch.out.String(), `"waits"`) })

	// As a script would: the token of one verb is what another takes.
	out, _ = does(0, "who", "/x")
	token := only(t, `"held":true.*?"token":"(\d+)"`, out)
	if jq, err := exec.LookPath("jq"); err == nil {
		cmd := exec.Command(jq, "-r", ".locks[0].participants[] | select(.held) | .token")
		cmd.Stdin = strings.NewReader(out)
		read, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, token+"\n", string(read))
	}
	page, err := os.ReadFile("../../docs/COMMAND.md") // which has a line for where there is no jq
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", only(t, `(?m)^token=.* \| (sed .*)\)$`, string(page)))
	cmd.Stdin = strings.NewReader(out)
	read, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, token+"\n", string(read))
	out, _ = does(0, "break", "--ask", "0", "--token", token, "--yes", "/x")
	meets("break", out)
	require.Equal(t, codeLost, holder.code(t))
	require.Zero(t, waiter.code(t))
	until(t, "that is seen", func() bool { return strings.Contains(watch.out.String(), `"gone"`) })
	require.NoError(t, watch.Process.Signal(syscall.SIGTERM))
	require.Zero(t, watch.code(t))
	meets("watch", watch.out.String())

	out, _ = does(codeNothing, "leader", "/l")
	require.Empty(t, out)
	elected := start(t, store, "elect", "/l", "--", "farsync", "leader", "--json", "/l")
	require.Zero(t, elected.code(t))
	meets("leader", elected.out.String())
	held := prepare(store, "farsync", "hold", "/h", "/i")
	input, err := held.StdinPipe()
	require.NoError(t, err)
	held.begin(t)
	until(t, "it holds", func() bool { return strings.Contains(held.out.String(), "\n") })
	require.NoError(t, input.Close())
	require.Zero(t, held.code(t))
	meets("hold", held.out.String())
}

// TestProgressIsNotInTheWayOfAScript: with --json what goes on is left out, and all that is written is JSON.
func TestProgressIsNotInTheWayOfAScript(t *testing.T) {
	t.Parallel()
	store := file(t)
	holder := start(t, store, "run", "/x", "--", "sh", "-c", "echo; exec sleep 600")
	until(t, "it is held", func() bool { return holder.out.String() != "" })
	for _, line := range []string{
		"run -w 1 /x -- true", "hold -w 1 /x", "hold /x", "ask /x", "ask /free", "who /free", "break --token 1 --yes /x", "run --leftovers wait /y -- sh",
	} {
		p := prepare(store, "farsync", append([]string{"--json"}, strings.Fields(line)...)...)
		if strings.HasPrefix(line, "hold -w") {
			p.Args = append(p.Args, "--while", strconv.Itoa(os.Getpid()))
		}
		if strings.HasSuffix(line, "sh") {
			p.Args = append(p.Args, "-c", "sleep 0.5 &")
		}
		p.begin(t)
		p.code(t)
		for said := range strings.Lines(p.out.String() + p.err.String()) {
			require.True(t, json.Valid([]byte(said)), "%s: %s", line, said)
		}
	}
}

// TestErrorsOfAViewThatGoesOnAreObjects: watch and leader --watch say what is wrong with the service, and go on.
func TestErrorsOfAViewThatGoesOnAreObjects(t *testing.T) {
	t.Parallel()
	root := readSchema(t)
	server := embedtest.Redis(t) // which grants nothing for a TTL, for farsync has not used it before
	store := "redis://" + server.Endpoint() + "?ttl=10m"
	start(t, store, "run", "-q", "/x", "--", "true")
	watch := start(t, store, "watch", "--json")
	until(t, "a waiter is seen", func() bool { return strings.Contains(watch.out.String(), `"waits"`) })
	leader := start(t, store, "leader", "--watch", "--json", "/l")
	until(t, "leader says why nobody is seen", func() bool { return strings.Contains(leader.err.String(), silence) })
	server.Pause()
	until(t, "watch says that nothing is seen", func() bool { return strings.Contains(watch.err.String(), "\n") })
	server.Resume()
	for _, p := range []*process{watch, leader} {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.Zero(t, p.code(t))
		for line := range strings.Lines(p.err.String()) {
			var said any
			require.NoError(t, json.Unmarshal([]byte(line), &said), line)
			require.Empty(t, root.Defs["error"].check(root, "error", said), line)
			require.Contains(t, line, `"exit":69`, "the service is not to be had")
		}
	}
}
