package redis

import (
	"testing"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// reply is what a server has answered.
type reply string

func (r reply) Error() string { return string(r) }

func (reply) RedisError() {}

var _ client.Error = reply("")

// TestOutcomesOfReplies: what is refused before a script begins was not carried out, and of what breaks off in a script that is not known.
func TestOutcomesOfReplies(t *testing.T) {
	s, err := NewService(nil, nil)
	require.NoError(t, err)
	for text, want := range map[reply]driver.Outcome{
		"NOPERM User member has no permissions to run the 'evalsha' command":                     driver.Refused,
		"NOPERM ACL failure in script: User member has no permissions to run the 'zrem' command": driver.Unknown,
		"ERR ACL failure in script: The user executing the script can't run this command":        driver.Unknown,
		"ERR unknown command 'ssubscribe', with args beginning with: 'x'":                        driver.Refused,
		"ERR unknown command `SSUBSCRIBE`, with args beginning with: `x`":                        driver.Refused,
		"ERR Unknown Redis command called from script":                                           driver.Unknown,
		"READONLY You can't write against a read only replica.":                                  driver.NotDone,
	} {
		require.Equal(t, want, s.Outcome(text), text)
	}
}
