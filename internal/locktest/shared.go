package locktest

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
)

// AtOnce has n tests run at the same time, unless a flag says otherwise: most of the time they wait, however many processors
// there are. It has to be called before the flags are parsed, so in TestMain.
func AtOnce(n int) { _ = flag.Set("test.parallel", strconv.Itoa(n)) }

// Beside is the Case of a Backend whose cases run beside one another: most of them wait for most of their time.
func Beside(t *testing.T, run func(t *testing.T)) {
	t.Parallel()
	run(t)
}

// A Shared is the servers of all tests of a package that do them no harm. Each test has paths of its own.
type Shared[S io.Closer] struct {
	// Start starts them, with their data and logs in dir.
	Start func(ctx context.Context, dir string) (S, error)

	once    sync.Once
	dir     string
	servers S
	err     error
}

// Get returns them. The first call starts them.
func (s *Shared[S]) Get() (S, error) {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*Soon)
		defer cancel()
		if s.dir, s.err = os.MkdirTemp("", "farsync"); s.err == nil {
			s.servers, s.err = s.Start(ctx, s.dir)
		}
	})
	return s.servers, s.err
}

// Run runs the tests of the package, and stops what they have started. The result is for os.Exit.
func (s *Shared[S]) Run(m *testing.M) (code int) {
	return max(m.Run(), s.End())
}

// End stops what the tests have started, when all have ended. The result is for os.Exit.
func (s *Shared[S]) End() (code int) {
	s.once.Do(func() { s.err = errors.New("none was started") })
	var err error
	if s.err == nil {
		err = s.servers.Close()
	}
	if err = errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}
