// Package earlier builds programs with the farsync of an earlier commit, for tests in which two versions share a queue.
package earlier

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// Program builds a package of the module as it was at a commit, with files added to it, and returns its executable. The
// files are those of this module, by the names that they get there. The test is two folders below the root of the
// module. Without the commit, which a clone without its history has not, the test is skipped, or fails if
// FARSYNC_REQUIRE_SERVERS is 1.
func Program(t *testing.T, commit, pkg string, files map[string]string) (executable string) {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "-C", "../..", "archive", "--format=zip", commit)
	var complaints bytes.Buffer
	git.Stderr = &complaints
	archive, err := git.Output()
	if err != nil {
		report := t.Skipf
		if os.Getenv("FARSYNC_REQUIRE_SERVERS") == "1" {
			report = t.Fatalf
		}
		report("the farsync of commit %s is not here, a clone with its history is needed: %v: %s", commit[:7], err, &complaints)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	unpacked, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	check(err)
	tree := t.TempDir()
	check(os.CopyFS(tree, unpacked))
	for to, from := range files {
		source, err := os.ReadFile(from)
		check(err)
		to = filepath.Join(tree, filepath.FromSlash(to))
		check(os.MkdirAll(filepath.Dir(to), 0o700))
		check(os.WriteFile(to, source, 0o600))
	}
	executable = filepath.Join(t.TempDir(), path.Base(pkg))
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", executable, pkg)
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return executable
}
