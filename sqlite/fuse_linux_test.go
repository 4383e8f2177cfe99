package sqlite

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/internal/suite"
)

// silent mounts a file system with a file in it, which is opened, and then answers nothing more, as a file system on
// the network does while its server is away. It speaks the protocol of /dev/fuse.
func silent(t *testing.T) {
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		suite.NotHere(t, "/dev/fuse: "+err.Error())
	}
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device)
	if err := unix.Mount("silent", dir, "fuse", 0, options); err != nil {
		_ = unix.Close(device)
		suite.NotHere(t, "the right to mount: "+err.Error())
	}
	opened := make(chan struct{})
	go func() {
		const (
			lookup, getattr, open, initialize = 1, 3, 14, 26
			plain                             = unix.S_IFREG | 0o600
			root                              = unix.S_IFDIR | 0o700
		)
		attributes := func(number uint64, mode uint32) (all [88]byte) {
			binary.NativeEndian.PutUint64(all[:], number)
			binary.NativeEndian.PutUint32(all[60:], mode)
			binary.NativeEndian.PutUint32(all[64:], 1) // names
			return all
		}
		request := make([]byte, 1<<17)
		for {
			n, err := unix.Read(device, request)
			if err != nil || n < 40 {
				return
			}
			var answer []byte
			switch binary.NativeEndian.Uint32(request[4:]) {
			case initialize:
				answer = make([]byte, 64)
				copy(answer, []byte{7})
				binary.NativeEndian.PutUint32(answer[4:], 31)
				binary.NativeEndian.PutUint32(answer[20:], 4096)
			case lookup:
				is := attributes(2, plain)
				answer = append(make([]byte, 40), is[:]...)
				binary.NativeEndian.PutUint64(answer, 2)
			case getattr:
				select {
				case <-opened:
					continue
				default:
				}
				is := attributes(1, root)
				answer = append(make([]byte, 16), is[:]...)
			case open:
				answer = make([]byte, 16)
				close(opened)
			}
			head := make([]byte, 16)
			binary.NativeEndian.PutUint32(head, uint32(16+len(answer)))
			copy(head[8:], request[8:16])
			_, _ = unix.Write(device, slices.Concat(head, answer))
		}
	}()
	file, err := os.Open(filepath.Join(dir, "file"))
	t.Cleanup(func() {
		_ = unix.Close(device) // whoever waits is told
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = file.Close()
	})
	require.NoError(t, err)
}

// TestFileOfTheProgramThatIsSilent: the program has a file open whose file system does not answer. A Store
// is opened all the same, for the file of the locks is elsewhere.
func TestFileOfTheProgramThatIsSilent(t *testing.T) {
	silent(t)
	done := make(chan error, 1)
	go func() {
		_, err := descriptors()
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(soon):
		require.Fail(t, "the descriptors cannot be looked at")
	}
	newStore(t, newFile(t), nil)
}
