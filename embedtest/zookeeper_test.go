//go:build unix

package embedtest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

func TestZooKeeperServes(t *testing.T) {
	server := embedtest.ZooKeeper(t)
	session := openSession(t, server.Endpoint())
	require.NoError(t, session.create("/node", "value"))
	value, err := session.get("/node")
	require.NoError(t, err)
	require.Equal(t, "value", value)
}

func TestZooKeeperAnswersFourLetterWords(t *testing.T) {
	server := embedtest.ZooKeeper(t)
	for word, part := range map[string]string{
		"ruok": "imok",
		"srvr": "Mode: standalone",
		"mntr": "zk_server_state\tstandalone",
		"cons": "/127.0.0.1:",
		"wchp": "",
		"dump": "SessionTracker",
		"conf": "tickTime=500",
	} {
		reply, err := server.FourLetter(within(t, soon), word)
		require.NoError(t, err, word)
		require.Contains(t, reply, part, word)
	}
}

func TestZooKeeperMakesContainers(t *testing.T) {
	const container = 4 // of the node types, one of the extended ones
	session := openSession(t, embedtest.ZooKeeper(t).Endpoint())
	require.NoError(t, session.createAs("/container", "", container))
}

func TestPausedZooKeeperDoesNotAnswerUntilResume(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "stops the server")
	server := embedtest.ZooKeeper(t)
	server.Pause()
	_, err := server.FourLetter(within(t, brief), "ruok")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	server.Resume()
	reply, err := server.FourLetter(within(t, soon), "ruok")
	require.NoError(t, err)
	require.Equal(t, "imok", reply)
}

func TestKilledZooKeeperKeepsItsDataAndAddressOverRestart(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "stops and kills the server")
	server := embedtest.ZooKeeper(t)
	endpoint := server.Endpoint()
	require.NoError(t, openSession(t, endpoint).create("/node", "value"))
	server.Pause()
	server.Kill()
	_, err := server.FourLetter(within(t, soon), "ruok")
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, server.Restart(within(t, soon)))
	require.Equal(t, endpoint, server.Endpoint())
	value, err := openSession(t, endpoint).get("/node")
	require.NoError(t, err)
	require.Equal(t, "value", value)
}

func TestZooKeeperEnsembleForBenchmarksServesButCannotBeIsolated(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "an ensemble has to keep its leader")
	ensemble := embedtest.ZooKeeperEnsemble(t, 3, embedtest.Bench(), embedtest.Fsync(), embedtest.Ticks(250*time.Millisecond, 8))
	require.NoError(t, openSession(t, ensemble.Member(1).Endpoint()).create("/node", "value"))
	require.Panics(t, func() { ensemble.Isolate(0) })
	settings, err := ensemble.Member(0).FourLetter(within(t, soon), "conf")
	require.NoError(t, err)
	require.Contains(t, settings, "tickTime=250")
	require.Contains(t, settings, "syncLimit=8")
}

func TestIsolatedZooKeeperLeaderIsReplacedAndRejoins(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "isolates the leader")
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	require.Len(t, ensemble.Endpoints(), 3)
	old, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, openSession(t, ensemble.Member(old).Endpoint()).create("/before", ""))

	ensemble.Isolate(old)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.NotEqual(t, old, leader)
	require.NoError(t, openSession(t, ensemble.Member(leader).Endpoint()).create("/meanwhile", "value"))
	_, err = ensemble.Member(old).FourLetter(within(t, soon), "ruok")
	require.NoError(t, err, "clients still reach the isolated server")
	_, err = tryOpenSession(t, within(t, time.Second), ensemble.Member(old).Endpoint())
	require.Error(t, err, "but it can commit nothing")

	ensemble.Heal()
	session := awaitSession(t, ensemble.Member(old).Endpoint())
	require.NoError(t, session.sync("/"))
	value, err := session.get("/meanwhile")
	require.NoError(t, err)
	require.Equal(t, "value", value)
}

// The hazard for which Isolate exists: for a while the follower serves its clients as if nothing were the matter.
func TestIsolatedZooKeeperFollowerServesStaleReads(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "isolates a follower")
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	follower := (leader + 1) % 3
	at, behind := openSession(t, ensemble.Member(leader).Endpoint()), openSession(t, ensemble.Member(follower).Endpoint())
	require.NoError(t, at.create("/node", "old"))
	require.NoError(t, behind.sync("/"))

	ensemble.Isolate(follower)
	require.NoError(t, at.set("/node", "new"))
	value, err := behind.get("/node")
	require.NoError(t, err)
	require.Equal(t, "old", value)

	ensemble.Heal()
	again := awaitSession(t, ensemble.Member(follower).Endpoint())
	require.NoError(t, again.sync("/"))
	value, err = again.get("/node")
	require.NoError(t, err)
	require.Equal(t, "new", value)
}

func TestZooKeeperEnsembleSurvivesTheDeathOfItsLeader(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "kills the leader")
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	old, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, openSession(t, ensemble.Member(old).Endpoint()).create("/node", "value"))
	ensemble.Member(old).Kill()
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.NotEqual(t, old, leader)
	require.NoError(t, ensemble.Member(old).Restart(within(t, soon)))
	session := awaitSession(t, ensemble.Member(old).Endpoint())
	require.NoError(t, session.sync("/"))
	value, err := session.get("/node")
	require.NoError(t, err)
	require.Equal(t, "value", value)
	require.NoError(t, ensemble.Restart(within(t, soon)))
	_, err = ensemble.Leader(within(t, soon))
	require.NoError(t, err)
}

func TestZooKeeperCleanupLeavesNoGoroutine(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "isolates, stops and kills servers of an ensemble")
	defer goleak.VerifyNone(t)
	t.Run("servers", func(t *testing.T) {
		ensemble := embedtest.ZooKeeperEnsemble(t, 3)
		openSession(t, embedtest.NewProxy(t, ensemble.Member(0).Endpoint()).Addr())
		ensemble.Isolate(0)
		ensemble.Member(1).Pause()
		ensemble.Member(2).Kill()
	})
}

func TestMissingZooKeeperIsNamedInTheError(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	_, err := embedtest.StartZooKeeper(within(t, soon), t.TempDir(), 1)
	require.ErrorIs(t, err, embedtest.ErrNoZooKeeper)
	require.ErrorContains(t, err, "no zookeeper-*.jar in")

	t.Setenv("PATH", "")
	t.Setenv("JAVA_HOME", "")
	_, _, err = embedtest.FindZooKeeper()
	require.ErrorIs(t, err, embedtest.ErrNoZooKeeper)
	require.ErrorContains(t, err, `"java"`)
}

func TestZooKeeperIsSkippedWhereItIsMissing(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	t.Setenv("FARSYNC_REQUIRE_SERVERS", "")
	t.Run("skipped", func(t *testing.T) {
		defer func() { require.True(t, t.Skipped()) }()
		embedtest.ZooKeeper(t)
	})
}

// A zkSession speaks as much of ZooKeeper's protocol as the tests need.
type zkSession struct {
	conn net.Conn
	xid  uint32
}

func openSession(t *testing.T, endpoint string) *zkSession {
	t.Helper()
	session, err := tryOpenSession(t, within(t, soon), endpoint)
	require.NoError(t, err)
	return session
}

// awaitSession waits out the time in which a server has no leader and turns clients away.
func awaitSession(t *testing.T, endpoint string) *zkSession {
	t.Helper()
	ctx := within(t, soon)
	for {
		session, err := tryOpenSession(t, ctx, endpoint)
		if err == nil {
			return session
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func tryOpenSession(t *testing.T, ctx context.Context, endpoint string) (*zkSession, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	s := &zkSession{conn: conn}
	body := make([]byte, 12, 64)
	body = binary.BigEndian.AppendUint32(body, 10_000)
	body = append(body, make([]byte, 8)...)
	body = appendString(body, string(make([]byte, 16)))
	reply, err := s.frame(append(body, 0))
	if err == nil && binary.BigEndian.Uint64(reply[8:]) == 0 {
		err = errors.New("no session")
	}
	return s, err
}

func (s *zkSession) create(path, value string) error { return s.createAs(path, value, 0) }

func (s *zkSession) createAs(path, value string, nodeType uint32) error {
	const everything = 31
	body := appendString(appendString(nil, path), value)
	body = binary.BigEndian.AppendUint32(body, 1)
	body = binary.BigEndian.AppendUint32(body, everything)
	body = appendString(appendString(body, "world"), "anyone")
	operation := uint32(1)
	if nodeType != 0 {
		operation = 19 // createContainer
	}
	_, err := s.call(operation, binary.BigEndian.AppendUint32(body, nodeType))
	return err
}

func (s *zkSession) set(path, value string) error {
	anyVersion := ^uint32(0)
	_, err := s.call(5, binary.BigEndian.AppendUint32(appendString(appendString(nil, path), value), anyVersion))
	return err
}

func (s *zkSession) sync(path string) error {
	_, err := s.call(9, appendString(nil, path))
	return err
}

func (s *zkSession) get(path string) (string, error) {
	reply, err := s.call(4, append(appendString(nil, path), 0))
	if err != nil {
		return "", err
	}
	n := binary.BigEndian.Uint32(reply)
	return string(reply[4 : 4+n]), nil
}

func (s *zkSession) call(operation uint32, body []byte) ([]byte, error) {
	s.xid++
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, s.xid), operation)
	reply, err := s.frame(append(head, body...))
	if err != nil {
		return nil, err
	}
	if code := int32(binary.BigEndian.Uint32(reply[12:])); code != 0 {
		return nil, errors.New("refused")
	}
	return reply[16:], nil
}

func (s *zkSession) frame(body []byte) ([]byte, error) {
	if _, err := s.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(s.conn, length[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(s.conn, reply)
	return reply, err
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
