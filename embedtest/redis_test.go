//go:build unix

package embedtest_test

import (
	"bufio"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// ask sends one inline command, and returns the first line of the answer; for a string, the string.
func ask(t *testing.T, endpoint, command string, patience time.Duration) (string, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", endpoint, soon)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte(command + "\r\n"))
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err == nil && line[0] == '$' && line != "$-1\r\n" {
		line, err = reader.ReadString('\n')
	}
	if err != nil {
		return "", err
	}
	return line[:len(line)-2], nil
}

// answers requires an answer.
func answers(t *testing.T, endpoint, command, want string) {
	t.Helper()
	got, err := ask(t, endpoint, command, soon)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestKilledRedisKeepsItsDataAndAddressOverRestart(t *testing.T) {
	suite.Long(t, suite.Redis, "stops and kills the server")
	before := goleak.IgnoreCurrent()
	t.Run("server", func(t *testing.T) {
		server := embedtest.Redis(t)
		endpoint := server.Endpoint()
		answers(t, endpoint, "SET key value", "+OK")
		server.Pause()
		server.Kill()
		_, err := ask(t, endpoint, "PING", soon)
		require.Error(t, err, "a connection to a dead server is refused")
		require.NoError(t, server.Restart(within(t, soon)))
		require.Equal(t, endpoint, server.Endpoint())
		answers(t, endpoint, "GET key", "value")
	})
	require.NoError(t, goleak.Find(before))
}

func TestPausedRedisDoesNotAnswerUntilResume(t *testing.T) {
	suite.Long(t, suite.Redis, "stops the server")
	server := embedtest.Redis(t)
	server.Pause()
	_, err := ask(t, server.Endpoint(), "PING", brief)
	require.Error(t, err)
	server.Resume()
	answers(t, server.Endpoint(), "PING", "+PONG")
}

func TestRedisForgetsAndGoesBack(t *testing.T) {
	suite.Long(t, suite.Redis, "stops and kills the server")
	server := embedtest.Redis(t)
	require.Error(t, server.Forget(), "it runs")
	answers(t, server.Endpoint(), "SET key old", "+OK")
	server.Pause()
	saved, err := server.Save()
	require.NoError(t, err)
	server.Resume()
	answers(t, server.Endpoint(), "SET key new", "+OK")
	server.Kill()
	require.NoError(t, server.Load(saved))
	require.NoError(t, server.Restart(within(t, soon)))
	answers(t, server.Endpoint(), "GET key", "old")
	server.Kill()
	require.NoError(t, server.Forget())
	require.NoError(t, server.Restart(within(t, soon)))
	answers(t, server.Endpoint(), "GET key", "$-1")
}

func TestRedisHasAClockOfItsOwn(t *testing.T) {
	suite.Long(t, suite.Redis, "sets the clock")
	server := embedtest.RedisWithClock(t)
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		require.NoError(t, server.StepClock(by))
		text, err := ask(t, server.Endpoint(), "EVAL \"return redis.call('TIME')[1]\" 0", soon)
		require.NoError(t, err)
		seconds, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		require.InDelta(t, time.Now().Add(by).Unix(), seconds, 2*soon.Seconds())
	}
	require.NoError(t, server.Restart(within(t, soon)), "with the same clock")
}

func TestRedisTakesArguments(t *testing.T) {
	server := embedtest.Redis(t, "--requirepass", "secret")
	answers(t, server.Endpoint(), "GET key", "-NOAUTH Authentication required.")
	_, err := embedtest.StartRedis(within(t, soon), t.TempDir(), "--no-such-argument", "1")
	require.ErrorContains(t, err, "no-such-argument")
}

func TestMissingRedisIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := embedtest.StartRedis(within(t, soon), t.TempDir())
	require.ErrorIs(t, err, embedtest.ErrNoRedis)
	t.Setenv("FARSYNC_REQUIRE_SERVERS", "")
	skipped := false
	t.Run("skips", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		embedtest.Redis(t)
	})
	require.True(t, skipped)
}
