//go:build unix

package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// TestJSONIsAsDocumented: testdata/json has a line of each schema. One that changes in another way than by a new field needs
// another number.
func TestJSONIsAsDocumented(t *testing.T) {
	manual, err := os.ReadFile("../../docs/COMMAND.md")
	require.NoError(t, err)
	for _, name := range []string{"who", "who-silence", "watch", "leader", "hold", "held", "status", "ask", "break", "resize", "doctor", "version", "error"} {
		line, err := os.ReadFile(filepath.Join("testdata", "json", name+".json"))
		require.NoError(t, err)
		require.Contains(t, string(manual), "\n"+string(line), "docs/COMMAND.md")
	}
	code, text, since := 3, "relay-1", time.Date(2026, 11, 22, 4, 5, 6, 0, time.UTC)
	for name, v := range map[string]any{
		"who": whoJSON{1, []lockJSON{{Path: "/deploy/shop", Participants: []userJSON{
			{Holder: "ci-7 pid 412", Held: true, Kind: "exclusive", Units: 1, Token: 447120640, Joined: &since, HeldAfter: &since, ID: "m-1", Session: "7a"},
			{Holder: "", Kind: "foreign", Units: 1, Token: 447120896, ID: "2"},
		}}}, nil},
		"who-empty":   whoJSON{1, []lockJSON{}, nil},
		"who-silence": whoJSON{1, []lockJSON{}, &silenceJSON{Until: since, Why: "the redis server was restarted or replaced, or was not used by farsync before"}},
		"watch": eventJSON{1, since, "holds", "/deploy/shop", userJSON{
			Holder: "ci-7 pid 412", Held: true, Kind: "exclusive", Units: 1, Token: 447120640, ID: "m-1",
		}},
		"held":   heldJSON{1, []farsync.Token{256}, 8.5},
		"ask":    askJSON{1, "/deploy/shop", true, 1},
		"break":  breakJSON{1, "/deploy/shop", 447120640, "broken"},
		"resize": sizeJSON{1, "/reindex", 3, 5},
		"doctor": doctorJSON{1, "etcd://etcd-1:2379", false, []findingJSON{
			{"speed", true, "a free lock takes 2ms, at worst 5ms"}, {"servers", false, "etcd-2:2379 does not answer: connection refused"},
		}},
		"version":     versionJSON{1, "v1.0.0", "go1.26.0", "linux", "amd64"},
		"error":       errorJSON{1, "try lock /x: locked", 75},
		"leader":      leaderJSON{1, &text, 256},
		"leader-none": leaderJSON{Schema: 1},
		"hold":        holding{1, []string{"/a", "/b"}, []farsync.Token{256, 512}, "exclusive", "ci-7 pid 412"},
		"status":      result{Schema: 1, Outcome: "ended", Exit: 3, Code: &code, Path: []string{"/a"}, Token: []farsync.Token{256}, Waited: 0.5, Held: 2},
		"status-lost": result{Schema: 1, Outcome: "lost", Exit: 79, Signal: "killed", Path: []string{"/a"}, Token: []farsync.Token{256}, Waited: 0.5, Held: 2, Error: "lost"},
		"status-kept": result{Schema: 1, Outcome: "ended", Code: new(int), Path: []string{"/a"}, Token: []farsync.Token{256}, Waited: 0.5, Held: 2, Kept: 7.25},
	} {
		var out bytes.Buffer
		require.NoError(t, (&app{stdout: &out}).print(v))
		want, err := os.ReadFile(filepath.Join("testdata", "json", name+".json"))
		require.NoError(t, err, "write %s", out.String())
		require.Equal(t, string(want), out.String(), name)
	}
}

func TestTableShowsHoldersAndPlaces(t *testing.T) {
	now := time.Date(2026, 11, 22, 4, 5, 6, 0, time.UTC)
	at := func(d time.Duration) *time.Time { since := now.Add(-d); return &since }
	var out bytes.Buffer
	require.NoError(t, (&app{}).table(&out, []lockJSON{
		{Path: "/deploy/shop", Participants: []userJSON{
			{Holder: "ci-7 pid 412", Held: true, Kind: "exclusive", Units: 1, Token: 256, Joined: at(time.Hour), HeldSince: at(130 * time.Second)},
			{Holder: "ci-2\x1b[31m", Kind: "exclusive", Units: 1, Token: 512, Joined: at(3 * time.Second)},
			{Kind: "foreign", Units: 1, Token: 768},
		}},
		{Path: "/reindex", Participants: []userJSON{{Holder: "idx-1", Held: true, Kind: "permit", Units: 2, Token: 1024, Joined: at(40 * time.Minute), HeldAfter: at(40 * time.Minute)}}},
	}, now, 0))
	require.Equal(t, `LOCK          WHO                                 KIND       FOR    TOKEN
/deploy/shop  ci-7 pid 412 holds                  exclusive  2m10s  256
              "ci-2\x1b[31m" waits, 1st           exclusive  3s     512
              a holder without a name waits, 2nd  foreign    ?      768
/reindex      idx-1 holds                         2 units    ≤ 40m  1024
`, out.String())
}

// TestEntriesWithoutASessionAreNamed: the column FOR may have no more than a question mark for them.
func TestEntriesWithoutASessionAreNamed(t *testing.T) {
	const says, by = "/x: token 512: row-1 belongs to no session, and blocks the queue for ever: delete it", ", by farsync break --token 512 --yes --delete /x"
	const bare = " by a client of the service: it has no token for farsync break"
	for _, is := range []struct {
		why   string
		error string
		user  userJSON
		says  string
	}{
		{"no session will ever remove it", "", userJSON{ID: "row-1", Held: true}, says + by + "\n"},
		{"it waits, and farsync break finds holders alone", "", userJSON{ID: "row-1"}, says + "\n"},
		{"it was in the queue before the first token", "", userJSON{ID: "row-1", Held: true, Token: -256}, strings.Replace(says, "512", "-256", 1) + bare + "\n"},
		{"a terminal would act on its name", "", userJSON{ID: "\x1b[31m"}, strings.Replace(says, "row-1", `\x1b[31m`, 1) + "\n"},
		{"its session removes it", "", userJSON{ID: "row-1", Session: "s"}, ""},
		{"the error has said so", `"row-1" blocks the queue`, userJSON{ID: "row-1"}, ""},
		{"the error is about the size", "its size is not a number", userJSON{ID: "row-1"}, says + "\n"},
	} {
		is.user.Token = cmp.Or(is.user.Token, 512)
		var out bytes.Buffer
		require.NoError(t, writeStrays(&out, []lockJSON{{Path: "/x", Error: is.error, Participants: []userJSON{is.user}}}))
		require.Equal(t, is.says, out.String(), is.why)
	}
}

// TestWatchNamesEntriesWithoutASession as who does: below the table, and in a pipe once, for as long as they are there.
func TestWatchNamesEntriesWithoutASession(t *testing.T) {
	stray := []lockJSON{{Path: "/x", Participants: []userJSON{{ID: "row-1", Held: true, Token: 512}}}}
	var out, errs bytes.Buffer
	v := &view{app: &app{stdout: &out, stderr: &errs}, location: &location.Location{}, last: stray}
	require.NoError(t, v.draw(60, 10, nil))
	require.Regexp(t, `\n/x .* holds .* 512\x1b\[K\r\n`+
		`/x: token 512: row-1 belongs to no session, and blocks the\x1b\[K\r\n`+
		`queue for ever: delete it, by farsync break --token 512\x1b\[K\r\n`+
		`--yes --delete /x\x1b\[K\r\n`, out.String())

	line := "farsync: /x: token 512: row-1 belongs to no session, and blocks the queue for ever: delete it, by farsync break --token 512 --yes --delete /x\n"
	for _, look := range []struct {
		locks []lockJSON
		says  string
	}{{stray, line}, {stray, ""}, {nil, ""}, {stray, line}} {
		errs.Reset()
		v.last = look.locks
		require.NoError(t, v.show(nil))
		require.Equal(t, look.says, errs.String())
	}
	errs.Reset()
	v = &view{app: &app{json: true, stdout: &out, stderr: &errs}, last: stray}
	require.NoError(t, v.show(nil))
	require.Empty(t, errs.String(), "a program sees that there is no field session")
}

// TestTreeShowsADeadlock: two that hold what the other waits for.
func TestTreeShowsADeadlock(t *testing.T) {
	user := func(id, holder string, held bool, under ...string) userJSON {
		return userJSON{ID: id, Holder: holder, Held: held, Kind: "exclusive", Units: 1, Token: 256, Under: under, kind: farsync.KindExclusive}
	}
	locks := []lockJSON{
		{Path: "/a", Participants: []userJSON{user("a1", "web", true), user("a2", "worker", false, "b1")}},
		{Path: "/b", Participants: []userJSON{user("b1", "worker", true), user("b2", "web", false, "a1"), user("b3", "late", false)}},
		{Path: "/c", Participants: []userJSON{user("c1", "calm", true)}},
	}
	var out bytes.Buffer
	require.NoError(t, grow(locks, time.Now()).write(&out))
	require.Equal(t, `/a  web
└─ waits for /b
   /b, held by worker
   └─ waits for /a
      !! deadlock: none of these can go on. To end one: farsync break --token 256 --yes /a
/a  1 waiting
/b  worker
└─ waits for /a
   /a, held by web
   └─ waits for /b
      !! deadlock: none of these can go on. To end one: farsync break --token 256 --yes /b
/b  2 waiting
/c  calm
`, out.String())
}

// TestManualIsWellFormed: groff warns of nothing, where it is installed, and every verb and flag is in the page.
func TestManualIsWellFormed(t *testing.T) {
	root := (&app{}).root()
	page := manual(root)
	for _, verb := range root.Commands() {
		if verb.Hidden {
			continue
		}
		require.Contains(t, page, "\n.SS "+verb.Name())
		verb.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				require.Contains(t, page, escaped("--"+f.Name))
			}
		})
	}
	require.Contains(t, page, "FARSYNC_TOKEN")
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("without groff, the page is not formatted")
		return
	}
	cmd := exec.Command(groff, "-man", "-ww", "-Tutf8")
	cmd.Stdin = strings.NewReader(page)
	var warnings bytes.Buffer
	cmd.Stderr = &warnings
	require.NoError(t, cmd.Run())
	require.Empty(t, warnings.String())
}

func TestWaitingIsSaidInOneLine(t *testing.T) {
	now := time.Now()
	list := []farsync.Participant{
		{Holder: "a", Held: true, Since: now.Add(-5 * time.Hour * 24)}, {Holder: "b"}, {Holder: "me"}, {Holder: "c"},
	}
	line, place := behind("/x", list, "me", now)
	require.Equal(t, "waiting for /x behind a, there for 5d; 2nd of 3 who wait", line)
	require.Equal(t, 2, place)
	_, place = behind("/x", list, "a", now)
	require.Zero(t, place, "it holds")
	_, place = behind("/x", nil, "me", now)
	require.Zero(t, place)
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th"} {
		require.Equal(t, want, ordinal(n))
	}
}
