//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// block returns the block of a page that has these words in it.
func block(t *testing.T, page, language, words string) string {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for part := range strings.SplitSeq(string(text), "\n```"+language+"\n") {
		if body, _, found := strings.Cut(part, "\n```"); found && strings.Contains(body, words) {
			return body + "\n"
		}
	}
	require.Fail(t, "there is no such block", "%s: %s %s", page, language, words)
	return ""
}

// only returns what a pattern finds in a text, once.
func only(t *testing.T, pattern, text string) string {
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1, "%s in %s", pattern, text)
	return found[0][1]
}

// A place is a folder with programs that the recipes name, each of which writes its name into the file ran.
type place struct{ dir, store string }

func newPlace(t *testing.T, programs ...string) place {
	p := place{t.TempDir(), file(t)}
	for _, name := range programs {
		script := "#!/bin/sh\necho $$ >" + p.dir + "/" + name + ".pid\necho " + name + ` "$@" $FARSYNC_HOLDER >>` + p.dir + "/ran\n"
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, name), []byte(script), 0o700))
	}
	return p
}

// sh runs a line in the place.
func (p place) sh(t *testing.T, line string, environment ...string) *process {
	return startAs(t, p.store, "env", append(append([]string{"-C", p.dir, "PATH=" + p.dir + ":" + os.Getenv("PATH")}, environment...), "sh", "-c", line)...)
}

// ran returns what the programs have written.
func (p place) ran(t *testing.T) string {
	text, err := os.ReadFile(p.dir + "/ran")
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}

// TestRecipesRun: what docs/COMMAND.md and the README recommend does what they say.
func TestRecipesRun(t *testing.T) {
	t.Parallel()
	const manual = "../../docs/COMMAND.md"
	t.Run("flock", func(t *testing.T) {
		t.Parallel()
		for _, page := range []string{manual, "../../README.md"} {
			p := newPlace(t, "backup.sh")
			lines := strings.ReplaceAll(block(t, page, "sh", "flock -n"), "/run/backup.lock", p.dir+"/backup.lock")
			run := p.sh(t, lines)
			require.Zero(t, run.code(t), run.err.String())
			require.Regexp(t, `^backup.sh *\nbackup.sh .* pid \d+\n$`, p.ran(t))
		}
	})
	t.Run("cron", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, block(t, manual, "cron", "etcd://"), block(t, "../../docs/CRON.md", "cron", "etcd://"))
		p := newPlace(t, "backup.sh")
		farsync, err := exec.LookPath("farsync")
		require.NoError(t, err)
		line := strings.NewReplacer("/usr/local/bin/farsync", farsync, "/usr/local/bin/backup.sh", p.dir+"/backup.sh",
			"--at-least 1m", "--at-least 10m").Replace( // so that the second comes early in that time
			only(t, `(?m)^0 3 \* \* \* (.*)$`, block(t, manual, "cron", "etcd://")))
		first := p.sh(t, "exec "+line)
		until(t, "it runs on one host", func() bool { return p.ran(t) != "" })
		second := p.sh(t, line)
		require.Zero(t, second.code(t))
		require.Empty(t, second.out.String()+second.err.String(), "cron would send it by mail")
		require.Regexp(t, `^backup.sh .* pid \d+\n$`, p.ran(t))
		text, err := os.ReadFile(p.dir + "/backup.sh.pid")
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		until(t, "it has ended, and does not die of the signal", func() bool { return dead(pid) })
		require.NoError(t, first.Process.Signal(syscall.SIGINT))
		require.Zero(t, first.code(t))
	})
	t.Run("systemd", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, "relayd")
		farsync, err := exec.LookPath("farsync")
		require.NoError(t, err)
		unit := strings.NewReplacer("/usr/local/bin/farsync", farsync, "/usr/local/bin/relayd", p.dir+"/relayd").Replace(
			block(t, manual, "ini", "[Service]"))
		if analyze, err := exec.LookPath("systemd-analyze"); err == nil {
			name := filepath.Join(p.dir, "relay.service")
			require.NoError(t, os.WriteFile(name, []byte(unit), 0o600))
			out, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput()
			require.NoError(t, err, string(out))
			require.NotContains(t, string(out), "relay.service")
		}
		run := p.sh(t, only(t, `(?m)^ExecStart=(.*)$`, unit))
		require.Zero(t, run.code(t), run.err.String())
		require.Regexp(t, `^relayd .* pid \d+\n$`, p.ran(t))
	})
	t.Run("CI", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, "deploy.sh")
		step := block(t, manual, "yaml", "deploy.sh")
		url := only(t, `(?m)^    CI_JOB_URL: (.*)$`, step)
		run := p.sh(t, only(t, `(?m)^  run: (.*)$`, step), "CI_JOB_URL="+url)
		require.Zero(t, run.code(t), run.err.String())
		require.Regexp(t, `^deploy.sh .* pid \d+ `+regexp.QuoteMeta(url)+`\n$`, p.ran(t))
	})
	t.Run("Kubernetes", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, "migrate")
		var command []string
		require.NoError(t, json.Unmarshal([]byte(only(t, `(?m)^  command: (.*)$`, block(t, manual, "yaml", "initContainers:"))), &command))
		run := p.sh(t, "exec "+strings.Join(command, " "))
		require.Zero(t, run.code(t), run.err.String())
		require.Regexp(t, `^migrate up .* pid \d+\n$`, p.ran(t))
	})
}

// TestItNeedsNothingInstalled but Go.
func TestItNeedsNothingInstalled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "run", "./cmd/farsync", "run", "--store", "sqlite:"+t.TempDir()+"/locks.db", "/x", "--", "echo", "held")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "held\n", string(out))
}
