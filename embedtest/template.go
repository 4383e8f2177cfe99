//go:build unix

package embedtest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// A template is the files that servers of one kind begin with. They are made once in a process, and copied from then
// on. What they contain is kept in a file without a name that is mapped into memory, so nothing of them is left, however
// the process ends, and to copy them is to write them: a test that starts a server does little else.
type template struct {
	mu    sync.Mutex
	files []templateFile // parents first; nil before they were made
}

// A templateFile is a file or a folder.
type templateFile struct {
	path    string // below the folder of them all, which is "."
	folder  bool
	content []byte // without the blocks of zeros at its end; mapped, and read alone
	size    int64
}

// lay has the files made in dir the first time, and later copies them there. They belong to the user, if one is given.
func (t *template) lay(dir string, as *syscall.Credential, install func() error) error {
	files, err := t.get(dir, install)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := f.place(filepath.Join(dir, f.path), as); err != nil {
			return errors.Join(err, os.RemoveAll(dir)) // a server that is started on a half of it would not make the rest
		}
	}
	return nil
}

// get returns nil if it has made the files in dir. All that come meanwhile wait for it, for it is quicker than if each
// made its own.
func (t *template) get(dir string, install func() error) ([]templateFile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files != nil {
		return t.files, nil
	}
	err := install()
	if err == nil {
		t.files, err = pack(dir)
	}
	return nil, err
}

// pack returns all that is in a folder.
func pack(dir string) (files []templateFile, err error) {
	packed, err := os.CreateTemp("", "embedtest")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, packed.Close()) }() // what is mapped stays
	if err := os.Remove(packed.Name()); err != nil {
		return nil, err
	}
	var lengths []int
	all := 0
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, length := templateFile{path: path, folder: entry.IsDir()}, 0
		if !f.folder {
			if f.size, length, err = add(packed, filepath.Join(dir, path)); err != nil {
				return err
			}
		}
		files, lengths = append(files, f), append(lengths, length)
		all += length
		return nil
	})
	if err != nil {
		return nil, err
	}
	mapped, err := syscall.Mmap(int(packed.Fd()), 0, all, syscall.PROT_READ, syscall.MAP_SHARED) // for as long as the process lives
	if err != nil {
		return nil, err
	}
	for i, n := range lengths {
		files[i].content, mapped = mapped[:n:n], mapped[n:]
	}
	return files, nil
}

// add appends a file without the blocks of zeros at its end, and the log of a database has a hundred megabytes of them. It
// returns its size, and how much of it was appended.
func add(packed *os.File, path string) (size int64, length int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	is, err := file.Stat()
	if err != nil || is.Size() == 0 {
		return 0, 0, err
	}
	// It is mapped as well, for the race detector has shadows of all that is on the heap.
	text, err := syscall.Mmap(int(file.Fd()), 0, int(is.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return 0, 0, err
	}
	length = len(text)
	var zeros [4 << 10]byte
	for length >= len(zeros) && bytes.Equal(text[length-len(zeros):length], zeros[:]) {
		length -= len(zeros)
	}
	_, err = packed.Write(text[:length])
	return is.Size(), length, errors.Join(err, syscall.Munmap(text))
}

// place makes a folder or a file that its user alone can read, as database servers want it.
func (f templateFile) place(path string, as *syscall.Credential) error {
	if f.folder {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	} else {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err = file.Write(f.content); err == nil && f.size > int64(len(f.content)) {
			err = reserve(file, f.size)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	if as == nil {
		return nil
	}
	return os.Lchown(path, int(as.Uid), int(as.Gid))
}

// writeZeros adds zeros to a file up to a size.
func writeZeros(file *os.File, size int64) error {
	at, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	for zeros := make([]byte, 64<<10); at < size; {
		n, err := file.Write(zeros[:min(int64(len(zeros)), size-at)])
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
