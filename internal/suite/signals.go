package suite

import (
	"os"
	"os/signal"
	"syscall"
)

// Hear has the programs that the tests start begin with the default of SIGINT and SIGHUP. A program inherits which
// signals its caller ignores: nohup ignores SIGHUP, and a shell without jobs, which runs a script, SIGINT in what
// stands before an &. farsync run, hold and elect leave an ignored signal ignored, so a test that ends them by it would
// wait for ever. TestMain calls Hear before the first test.
//
// A signal that this process was started to ignore still does nothing to it. Only what has a handler is reset for a
// program that is started.
func Hear() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
