package sqlite

import (
	sqldriver "database/sql/driver"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/driver"
)

// A meddler is SQLite's driver beside another user, who acts just before and just after SQLite opens a file.
type meddler struct {
	sqldriver.Driver

	before, after func()
}

func (m *meddler) Open(name string) (sqldriver.Conn, error) {
	if m.before != nil {
		m.before()
	}
	conn, err := m.Driver.Open(name)
	if m.after != nil {
		m.after()
	}
	return conn, err
}

// TestExchangeWithinOneOpen: the names are what they were by the time at which anybody can look at them, and what is
// open is not what they name. The connection is opened anew, while that goes on, and is in no other file than the
// first.
func TestExchangeWithinOneOpen(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		for times, says := range map[int]string{1: "", 1000: "was replaced while it was opened"} {
			file := newFile(t)
			in := newSessionIn(t, file, nil)
			admin := newOperator(t, file)
			admin.exec(t, "PRAGMA wal_checkpoint(TRUNCATE)") // or SQLite misses in another log what the index tells of
			require.NoError(t, admin.db.Close())
			var other []byte
			if suffix == "" {
				backUp(t, file, file+".backup")
				var err error
				other, err = os.ReadFile(file + ".backup")
				require.NoError(t, err)
			}
			first, err := in.file.db.Conn(within(t, soon)) // so that the next is a new one
			require.NoError(t, err)
			var back func() error
			in.file.opens.driver = &meddler{
				Driver: in.file.opens.driver,
				before: func() {
					if times > 0 {
						back = aside(t, file+suffix)
						if other != nil { // from an empty file SQLite would take the log away
							require.NoError(t, os.WriteFile(file, other, 0o600))
						}
					}
				},
				after: func() {
					if times--; times >= 0 {
						require.NoError(t, back())
					}
				},
			}
			next, err := in.file.db.Conn(within(t, soon))
			if says != "" {
				require.ErrorContains(t, err, says)
				require.Equal(t, driver.NotDone, outcome(err))
			} else {
				require.NoError(t, err)
				require.NoError(t, next.Close())
			}
			require.NoError(t, first.Close())
			if says == "" {
				require.NoError(t, in.Renew(within(t, soon), nil), "the session goes on")
			}
		}
	}
}

// TestLinkThatIsMadeAfterTheLook at what lies beside the file, and before SQLite opens it: nothing is written through
// it.
func TestLinkThatIsMadeAfterTheLook(t *testing.T) {
	t.Parallel()
	victim, file := planted(t)
	require.NoError(t, newStore(t, file, nil).Close())
	s := newService(t, file)
	s.current.opens.driver = &meddler{Driver: s.current.opens.driver, before: func() { _ = os.Link(victim, file+"-wal") }}
	_, err := s.Open(within(t, soon), time.Hour)
	require.ErrorContains(t, err, file+"-wal has 2 names (hard links)")
	require.Equal(t, driver.Refused, outcome(err))
	content, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "a text of another program", string(content))
}

// TestDescriptorThatIsLeftOver: while another connection of the process has locks, SQLite keeps the descriptor of a
// connection that is closed, and takes it for the next.
func TestDescriptorThatIsLeftOver(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	newStore(t, file, nil)
	for range 5 {
		require.NoError(t, newStore(t, file, nil).Close())
		s := newService(t, file)
		s.current.opens.driver = &meddler{Driver: s.current.opens.driver, after: func() { // the program opens files of its own
			log, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			t.Cleanup(func() { _ = log.Close() })
		}}
		in, err := s.Open(within(t, soon), time.Hour)
		require.NoError(t, err)
		require.NoError(t, in.Close(within(t, soon)))
	}
}

// TestWithoutDescriptors: the process may have no more files open. What Open says is not that somebody exchanges files.
func TestWithoutDescriptors(t *testing.T) {
	file := newFile(t)
	newStore(t, file, ttl(time.Hour))
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	before := limit.Cur
	limit.Cur = min(before, 200)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() {
		limit.Cur = before
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}()
	var all []*os.File
	free := func() error {
		last := len(all) - 1
		defer func() { all = all[:last] }()
		return all[last].Close()
	}
	for {
		one, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		all = append(all, one)
	}
	defer func() {
		for len(all) > 0 {
			must(t, free())
		}
	}()
	for left := range 8 {
		t.Run(strconv.Itoa(left), func(t *testing.T) {
			in := newService(t, file).current
			conn, err := in.db.Conn(within(t, soon))
			if err != nil {
				require.NotContains(t, err.Error(), "was replaced")
				return
			}
			require.NoError(t, conn.Close())
			require.NotNil(t, in.opens.in.Load(), "the connection was looked at")
		})
		must(t, free())
	}
}
