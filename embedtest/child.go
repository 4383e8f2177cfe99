//go:build unix

package embedtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childVariable names the environment variable that tells a process to be a server; its value is an etcdChild in JSON.
const childVariable = "FARSYNC_EMBEDTEST_CHILD"

// programVariable names the environment variable with the path of the program that is run as a server, in place of the
// running executable. The program only has to call Child, with the same version of this package.
const programVariable = "FARSYNC_EMBEDTEST_PROGRAM"

// childGreeting is the first line of a child's log. A log without it comes from a process that never called Child.
const childGreeting = "embedtest: child server"

// lifelineFD is the read end of a pipe in the child; its end of file says that the parent is gone.
const lifelineFD = 3

var errNotWired = errors.New("embedtest: this process was started to be a server, and got as far as starting one itself: " +
	"TestMain must call embedtest.Main, and main must call embedtest.Child first")

// Main is the body of a TestMain: in a child process it is the server and does not return, otherwise it runs the tests
// and exits with their code.
//
//	func TestMain(m *testing.M) { embedtest.Main(m) }
//
// A TestMain that does more calls [Child] first instead.
func Main(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// Child must be the first call in the main of a program that starts etcd servers. It does nothing, unless the process
// was started by this package to be a server: then it serves and never returns.
func Child() {
	settings, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	fmt.Fprintf(os.Stderr, "%s, process %d\n", childGreeting, os.Getpid())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline"))
		os.Exit(0)
	}()
	var child etcdChild
	err := json.Unmarshal([]byte(settings), &child)
	if err == nil {
		err = child.serve()
	}
	fmt.Fprintln(os.Stderr, "embedtest:", err)
	os.Exit(1)
}

// childCommand is the command that runs this executable, or the program that programVariable names, as the given child.
func childCommand(child etcdChild) (*exec.Cmd, error) {
	if _, ok := os.LookupEnv(childVariable); ok {
		// Without this a TestMain that forgets Main would start children without end.
		return nil, errNotWired
	}
	settings, err := json.Marshal(child)
	if err != nil {
		return nil, err
	}
	program := os.Getenv(programVariable)
	named := program != ""
	if !named {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	command := exec.Command(program)
	if testing.Testing() && !named {
		// If TestMain does not call Main, the child is a test binary like any other: let it find nothing to do.
		command.Args = append(command.Args, "-test.run=^$")
	}
	command.Env = append(os.Environ(), childVariable+"="+string(settings))
	return command, nil
}

// childHint explains the log of a child that never became ready, if it shows that the child was never one.
func childHint(log string) string {
	switch {
	case strings.Contains(log, childGreeting):
		return ""
	case os.Getenv(programVariable) != "":
		return "; does the program that " + programVariable + " names call embedtest.Child?"
	case testing.Testing():
		return "; does TestMain call embedtest.Main?"
	default:
		return "; does main call embedtest.Child first?"
	}
}
