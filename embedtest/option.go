//go:build unix

package embedtest

// An Option changes how servers are set up. It holds for every member of an ensemble.
type Option func(*settings)

type settings struct {
	fsync bool
	bench bool
}

func settingsOf(options []Option) settings {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return s
}

// Fsync makes the servers sync their files before they answer, as in production.
func Fsync() Option { return func(s *settings) { s.fsync = true } }

// Bench sets the servers up to be measured: the members of an ensemble talk to one another directly, which takes a third
// off the time of an etcd put, so that Isolate panics; and java takes its time to start, and optimises fully.
func Bench() Option { return func(s *settings) { s.bench = true } }
