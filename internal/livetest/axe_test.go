//go:build unix

package livetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/stretchr/testify/require"
)

// axe-core looks for what readers with other eyes, ears or hands would miss. scripts/servers.sh has npm put its package where it is
// looked for here; what it has to be is said here.
const (
	axeFile = "axe-core-4.14.1.tgz"
	axeHash = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axeScript reads it.
var axeScript = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(cache, "farsync", axeFile))
	if err != nil {
		return "", err
	}
	if sum := sha512.Sum512(text); base64.StdEncoding.EncodeToString(sum[:]) != axeHash {
		return "", fmt.Errorf("%s is not what it was", axeFile)
	}
	zip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(zip); ; {
		file, err := files.Next()
		if err != nil {
			return "", err
		}
		if file.Name == "package/axe.min.js" {
			script, err := io.ReadAll(files)
			return string(script), err
		}
	}
})

// axe fails if axe-core finds anything wrong with what the page shows.
func (p *tab) axe() {
	p.t.Helper()
	script, err := axeScript()
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("FARSYNC_REQUIRE_SERVERS") != "1" {
		p.t.Log("not looked at by axe-core: ", err)
		return
	}
	require.NoError(p.t, err)
	p.eval("window.axe ? 0 : ("+"()=>{"+script+"\n})()", nil)
	var wrong []struct {
		ID, Help string
		Nodes    []struct {
			HTML           string
			FailureSummary string
		}
	}
	p.eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations)`, &wrong)
	for _, w := range wrong {
		p.t.Errorf("axe-core: %s: %s", w.ID, w.Help)
		for _, n := range w.Nodes {
			p.t.Errorf("\t%s\n\t%s", n.HTML, n.FailureSummary)
		}
	}
}
