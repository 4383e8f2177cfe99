//go:build unix

package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/farsync/farsync/cmd/farsync/internal/family"
)

// KeeperName is the name of the keeper among processes, as Name is the name of the supervisor.
const KeeperName = "farsync-keeper"

// keeperVariable tells the keeper the descriptor of its report: two words of 4 bytes. The first is the PID of the
// supervisor, and the second comes when the supervisor has ended, and is how. If the first is 0 the supervisor was not
// started, and the second is why.
const keeperVariable = "FARSYNC_KEEPER"

// startKeeper starts the supervisor by a keeper.
func (g *guard) startKeeper(program string, environment []string) error {
	report, write, err := os.Pipe()
	if err != nil {
		return err
	}
	if g.family, err = startReporting(write, program, environment); err == nil {
		err = g.hearOf(report)
	}
	if err != nil {
		return errors.Join(err, report.Close())
	}
	g.report = report
	return nil
}

// startReporting starts the keeper with the end of a pipe that it writes to, and closes that.
func startReporting(write *os.File, program string, environment []string) (*family.Family, error) {
	high, err := aside(int(write.Fd()))
	if err := errors.Join(err, write.Close()); err != nil {
		return nil, err
	}
	defer syscall.Close(high)
	if err := inherit(high, true); err != nil {
		return nil, err
	}
	// Without a guard there is nothing to keep. The supervisor is sent SIGCONT when the keeper dies of that, and sees that
	// the guard has died.
	return family.StartApart(program, append([]string{KeeperName}, os.Args[1:]...),
		append(environment, keeperVariable+"="+strconv.Itoa(high)), syscall.SIGKILL)
}

// hearOf waits until the keeper has started the supervisor.
func (g *guard) hearOf(report io.Reader) error {
	supervisor, err := readWord(report)
	if err != nil {
		return fmt.Errorf("the keeper has ended: %w", err)
	}
	if supervisor != 0 {
		g.family.SetHeir(int(supervisor))
		return nil
	}
	why, err := readWord(report)
	if err != nil {
		return fmt.Errorf("the keeper has ended: %w", err)
	}
	return syscall.Errno(why)
}

// follow waits until the keeper has said how the supervisor has ended. A keeper that dies before is as bad as a
// supervisor that does.
func (g *guard) follow(ended chan<- struct{}, status *syscall.WaitStatus) {
	defer close(ended)
	*status = syscall.WaitStatus(syscall.SIGKILL)
	if how, err := readWord(g.report); err == nil {
		*status = syscall.WaitStatus(how)
		g.family.SetHeir(0)
	}
}

// Keep is the keeper, if this process is one, and then does not return: it starts the supervisor, is given all orphans
// that come from it, and ends when none is left. It holds nothing open but what the guard does.
func Keep() error {
	text, found := os.LookupEnv(keeperVariable)
	if !found {
		return nil
	}
	_ = os.Unsetenv(keeperVariable)
	report, err := strconv.Atoi(text)
	var private [3]int // of the supervisor: its end of the link, and the Word
	n, _ := fmt.Sscanf(os.Getenv(variable), "%d,%d,%d", &private[0], &private[1], &private[2])
	if err != nil || n != len(private) {
		return errors.New(keeperVariable + " is not for users")
	}
	if err := inherit(report, false); err != nil {
		return err
	}
	// Some signals are sent to all processes of a service, and must not end this one before the others.
	dropped := make(chan os.Signal, 1)
	Catch(dropped, passedOn...)
	out := os.NewFile(uintptr(report), "report")
	f, err := family.Start("/proc/self/exe", append([]string{Name}, os.Args[1:]...), os.Environ(), syscall.SIGCONT)
	for _, fd := range private {
		_ = syscall.Close(fd)
	}
	if err != nil {
		errno := syscall.EINVAL
		errors.As(err, &errno)
		_ = writeWord(out, 0)
		_ = writeWord(out, uint32(errno))
		os.Exit(1)
	}
	_ = writeWord(out, uint32(f.Group())) // a guard that has died has this process killed
	<-f.Ended
	_ = writeWord(out, uint32(f.Status))
	<-f.Over
	os.Exit(0)
	return nil
}

func readWord(r io.Reader) (uint32, error) {
	var word [4]byte
	_, err := io.ReadFull(r, word[:])
	return binary.NativeEndian.Uint32(word[:]), err
}

func writeWord(w io.Writer, word uint32) error {
	_, err := w.Write(binary.NativeEndian.AppendUint32(nil, word))
	return err
}
