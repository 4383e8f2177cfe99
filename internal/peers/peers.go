// Package peers lets the processes of one machine send one another short messages through a directory that they share,
// and see at once that one of them has died.
//
// Each member has a datagram socket in the directory. A message is a hint: it is lost if its receiver is stopped for
// long, may not be reached, or has no socket, for not every system has them. A name is used once: a socket that is
// there and refuses belongs to a process that has died, since a process that leaves removes its socket first.
//
// Other users may write to the directory, and to the directory around it, and names come from them. So a Directory is
// the directory that was there when it was opened, whatever its path leads to later, and nothing but sockets is removed
// from it.
package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxMessage is how many bytes a message may have.
const maxMessage = 16 << 10

// A Directory is where the sockets are. If its path names something else, no member has a socket.
type Directory struct {
	root *os.Root    // nil: no directory
	open *os.File    // the root
	is   fs.FileInfo // the root, when it was opened
}

// Open opens a directory, and makes it if it is not there, with these rights as far as the umask lets. It refuses a
// symbolic link: somebody else may have made it, to another directory of this user.
func Open(path string, rights fs.FileMode) (*Directory, error) {
	err := os.Mkdir(path, rights.Perm())
	if err != nil && !os.IsExist(err) {
		return nil, err
	}
	is, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case is.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link in the place of a directory: remove it", path)
	case !is.IsDir():
		return new(Directory), nil
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	open, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	d := &Directory{root: root, open: open}
	opened, err := open.Stat()
	if err == nil && !os.SameFile(is, opened) {
		err = fmt.Errorf("%s was replaced while it was opened", path)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.is = opened
	return d, nil
}

// Stat returns what the directory was when it was opened, nil if there is none.
func (d *Directory) Stat() fs.FileInfo { return d.is }

// Close closes the directory, which its members have left. A nil Directory need not be closed.
func (d *Directory) Close() error {
	if d == nil || d.root == nil {
		return nil
	}
	return errors.Join(d.open.Close(), d.root.Close())
}

// Join makes a member with a name that none has ever had. It returns nil where sockets cannot be made: on Windows, in a
// directory of another user, or if the path is too long for a socket's.
func (d *Directory) Join(name string) *Member {
	if d.root == nil {
		return nil
	}
	conn, err := net.ListenUnixgram("unixgram", d.address(name))
	if err != nil {
		return nil
	}
	if d.is.Mode().Perm()&0o020 != 0 { // it is shared with its group
		_ = d.root.Chmod(name, 0o770) // whatever the umask: to send to it is to write to it
	}
	return &Member{d, name, conn}
}

func (d *Directory) address(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: reach(d.open, name), Net: "unixgram"}
}

// Remove removes the socket of a member that has died, or is about to leave without a word.
func (d *Directory) Remove(name string) {
	if d.has(name) {
		_ = d.root.Remove(name)
	}
}

// has reports whether a name belongs to a socket.
func (d *Directory) has(name string) bool {
	if d.root == nil || !named(name) {
		return false
	}
	is, err := d.root.Lstat(name)
	return err == nil && is.Mode().Type() == fs.ModeSocket
}

// named reports whether a member may have that name. Names come from what others have written, and must not lead out of
// the directory.
func named(name string) bool {
	return filepath.Base(name) == name && name != "." && filepath.IsLocal(name)
}

// Dead reports whether the process of a member has died. The member does not notice: connecting a datagram socket sends
// nothing. A process that is stopped has its socket still. A member without a socket, or with a socket that this user
// may not reach, is not known to be dead.
func (d *Directory) Dead(name string) bool {
	if !d.has(name) {
		return false
	}
	conn, err := net.DialUnix("unixgram", nil, d.address(name))
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	// A socket that was closed in order refuses, too, but has been removed.
	return d.has(name)
}

// Knock sends an empty message to every member, and returns how many are there. A member of another user, whose socket
// may not be reached, hears nothing and is not counted.
func (d *Directory) Knock() (live int) {
	if d.root == nil {
		return 0
	}
	list, _ := fs.ReadDir(d.root.FS(), ".")
	for _, e := range list {
		if e.Type() != fs.ModeSocket {
			continue
		}
		conn, err := net.DialUnix("unixgram", nil, d.address(e.Name()))
		if err != nil {
			continue
		}
		live++
		// A member whose socket is full for longer has enough to look at, or is stopped.
		_ = conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, _ = conn.Write([]byte("\n"))
		_ = conn.Close()
	}
	return live
}

// A Member has a socket in a Directory. A nil Member hears and sends nothing.
type Member struct {
	directory *Directory
	name      string
	conn      *net.UnixConn
}

// Hear calls heard with the words of each message, one after the other, until the member leaves.
func (m *Member) Hear(heard func(words []string)) {
	if m == nil {
		return
	}
	buffer := make([]byte, maxMessage)
	for {
		n, err := m.conn.Read(buffer)
		if err != nil {
			return
		}
		heard(strings.Split(string(buffer[:n]), "\n"))
	}
}

// Send sends a message of words, which have no newlines, and waits for a millisecond at most. A socket that is full for
// longer belongs to a member that has enough to look at, or is stopped. In place of more words than a message takes it
// sends an empty one.
func (m *Member) Send(to string, words []string) {
	if m == nil || !named(to) {
		return
	}
	message := []byte(strings.Join(words, "\n"))
	if len(message) > maxMessage {
		message = nil
	}
	if address := m.directory.address(to); !sendNow(m.conn, message, address) {
		_ = m.conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, _ = m.conn.WriteToUnix(message, address)
	}
}

// Leave removes the socket, and closes it: in this order, or the member would be taken for dead.
func (m *Member) Leave() {
	if m == nil {
		return
	}
	m.directory.Remove(m.name)
	_ = m.conn.Close()
}
