//go:build unix

package embedtest

import (
	"archive/tar"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// A template is the files that servers of one kind begin with. They are made once in a process, and copied from then
// on. They are kept in a file without a name, so nothing of them is left, however the process ends.
type template struct {
	mu     sync.Mutex
	packed *os.File // nil before they were made
}

// lay has the files made in dir the first time, and later copies them there. They belong to the user, if one is given.
func (t *template) lay(dir string, as *syscall.Credential, install func() error) error {
	packed, err := t.get(dir, install)
	if err != nil || packed == nil {
		return err
	}
	if err := unpack(io.NewSectionReader(packed, 0, math.MaxInt64), dir, as); err != nil {
		return errors.Join(err, os.RemoveAll(dir)) // a server that is started on a half of it would not make the rest
	}
	return nil
}

// get returns nil if it has made the files in dir. All that come meanwhile wait for it, for it is quicker than if each
// made its own.
func (t *template) get(dir string, install func() error) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.packed != nil {
		return t.packed, nil
	}
	err := install()
	if err == nil {
		t.packed, err = pack(dir)
	}
	return nil, err
}

// pack returns a file without a name that has all that is in a folder.
func pack(dir string) (*os.File, error) {
	file, err := os.CreateTemp("", "embedtest")
	if err != nil {
		return nil, err
	}
	writer := tar.NewWriter(file)
	if err := errors.Join(os.Remove(file.Name()), writer.AddFS(os.DirFS(dir)), writer.Close()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unpack is the reverse of pack.
func unpack(from io.Reader, dir string, as *syscall.Credential) error {
	if err := place(dir, true, nil, as); err != nil {
		return err
	}
	reader := tar.NewReader(from)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = place(filepath.Join(dir, filepath.FromSlash(header.Name)), header.FileInfo().IsDir(), reader, as)
		}
		if err != nil {
			return err
		}
	}
}

// place makes a folder or a file that its user alone can read, as database servers want it.
func place(path string, isDir bool, content io.Reader, as *syscall.Credential) error {
	if isDir {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	} else {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	if as == nil {
		return nil
	}
	return os.Lchown(path, int(as.Uid), int(as.Gid))
}
