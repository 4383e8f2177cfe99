package redis

import (
	"context"
	"fmt"
	"slices"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/recipe"
)

// A GuardedScript is a script of the caller's own that changes something only while a lease is held.
type GuardedScript struct {
	prefix string
	script *client.Script
}

// condition looks for entries with their revisions, which stand behind the caller's keys and arguments, and then their
// number.
const condition = `
for i = 1, ARGV[#ARGV] do
  local place = i - ARGV[#ARGV] - 1
  if redis.call('HGET', KEYS[#KEYS + place + 1], 'revision') ~= ARGV[#ARGV + place] then
    return redis.error_reply('LOST the lock of ' .. KEYS[#KEYS + place + 1])
  end
end
`

// Guard makes a guarded script of one in Lua, for leases of Stores of the namespace; an empty one is the default of the
// option Namespace. Redis runs a script as a whole. So there is no moment between the check and the write, and what the
// script protects is safe even from a holder that was suspended past its TTL:
//
//	var withdraw = redis.Guard("", "return redis.call('DECRBY', KEYS[1], ARGV[1])")
//	…
//	left, err := withdraw.Run(ctx, client, lease, []string{"balance"}, 100)
//	// err wraps farsync.ErrLost if the lease was lost, and farsync.ErrReleased if it was released; then nothing was changed
//
// A guard never outlives its lease: once Run was called, the lock is not handed off within this process, where the next
// lease would stand on the same entry. Leases for reading that share an entry already share the guard, which holds
// until the last of them is released; no writer holds before that.
//
// The keys that it protects must be in the same database of the same server as the locks. The script finds its keys and
// arguments where they would be without a guard; a few more stand behind them.
func Guard(namespace, script string) *GuardedScript {
	if namespace == "" {
		namespace = "farsync"
	}
	return &GuardedScript{prefixOf(namespace), client.NewScript(condition + script)}
}

// Run runs the script while lease is held, and returns what it returns.
func (g *GuardedScript) Run(
	ctx context.Context, c client.Scripter, lease farsync.Guarded, keys []string, args ...any,
) (any, error) {
	held, err := recipe.Guarding(lease)
	if err != nil {
		return nil, err
	}
	keys, args = slices.Clip(keys), slices.Clip(args) // what stands behind them is the caller's
	for _, e := range held {
		keys, args = append(keys, g.prefix+"e:"+e.ID), append(args, e.Revision)
	}
	result, err := g.script.Run(ctx, c, keys, append(args, len(held))...).Result()
	if client.HasErrorPrefix(err, "LOST") {
		err = fmt.Errorf("%w: its entry is not in Redis", farsync.ErrLost)
	}
	if err != nil {
		return nil, &farsync.Error{Op: "guard", Path: held[0].Queue, Err: err}
	}
	return result, nil
}
