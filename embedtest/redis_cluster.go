//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// slots is how many slots a Redis Cluster has, in any case.
const slots = 16384

// A RedisCluster is a Redis Cluster of masters that share the slots evenly, in their order, each with one replica.
type RedisCluster struct {
	members []*RedisServer // the masters, and then their replicas in the same order
	servers []*server
}

// StartRedisCluster starts a cluster of so many masters, and as many replicas, that keep data and logs under dir, which
// is made if need be, and waits until all slots are served and all replicas are up to date, or ctx is done. A master
// that does not answer for a second is replaced by its replica if most masters agree. Arguments are further ones of
// redis-server. On failure nothing is left running. The error is [ErrNoRedis] where there is nothing to run.
func StartRedisCluster(ctx context.Context, dir string, masters int, arguments ...string) (*RedisCluster, error) {
	c := &RedisCluster{}
	err := c.start(ctx, dir, masters, arguments)
	if err != nil {
		_ = c.Close() // err says it all
		return nil, err
	}
	return c, nil
}

func (c *RedisCluster) start(ctx context.Context, dir string, masters int, arguments []string) error {
	for i := range 2 * masters {
		bus, err := reservePort()
		if err != nil {
			return err
		}
		s, err := StartRedis(ctx, filepath.Join(dir, fmt.Sprintf("m%d", i)), append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus.number), "--cluster-node-timeout", "1000",
			"--cluster-replica-validity-factor", "0",
		}, arguments...)...)
		if err != nil {
			bus.release()
			return err
		}
		s.name = fmt.Sprintf("member %d of the Redis Cluster", i)
		s.ports = append(s.ports, bus) // released by Close
		c.members = append(c.members, s)
		c.servers = append(c.servers, &s.server)
	}
	first := c.members[0]
	for i, m := range c.members {
		if i < masters {
			// Masters that begin with the same epoch settle that among themselves later. A replica that has not heard of it by
			// the time its master dies is refused by all others.
			if _, err := m.ask(ctx, fmt.Sprint("CLUSTER SET-CONFIG-EPOCH ", i+1)); err != nil {
				return err
			}
			from, to := i*slots/masters, (i+1)*slots/masters-1
			if _, err := m.ask(ctx, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", from, to)); err != nil {
				return err
			}
		}
		_, err := first.ask(ctx, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %d", m.ports[0].number, m.ports[1].number))
		if err != nil {
			return err
		}
	}
	for i, replica := range c.members[masters:] {
		id, err := c.members[i].ask(ctx, "CLUSTER MYID")
		if err != nil {
			return err
		}
		// It may not have heard of its master yet.
		if err := eventually(ctx, func() error { _, err := replica.ask(ctx, "CLUSTER REPLICATE "+id); return err }); err != nil {
			return err
		}
	}
	for i, m := range c.members {
		want := "master_link_status:up"
		if i < masters {
			want = "connected_slaves:1"
		}
		if err := eventually(ctx, func() error { return m.whole(ctx, len(c.members), masters, want) }); err != nil {
			return err
		}
	}
	return nil
}

// whole returns nil once a member sees the whole cluster, and has what is wanted in its own replication.
func (s *RedisServer) whole(ctx context.Context, members, masters int, want string) error {
	for command, words := range map[string][]string{
		"CLUSTER INFO":     {"cluster_state:ok", fmt.Sprint("cluster_known_nodes:", members), fmt.Sprint("cluster_size:", masters)},
		"INFO replication": {want},
	} {
		text, err := s.ask(ctx, command)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("%s: no %q yet in %s", s.name, word, text)
			}
		}
	}
	return nil
}

// eventually calls f until it succeeds, or ctx is done.
func eventually(ctx context.Context, f func() error) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("embedtest: %w (%w)", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// Member returns a member. Those from 0 up began as masters; behind them come their replicas, in the same order.
func (c *RedisCluster) Member(i int) *RedisServer { return c.members[i] }

// Endpoints returns the addresses of all members.
func (c *RedisCluster) Endpoints() (all []string) {
	for _, m := range c.members {
		all = append(all, m.Endpoint())
	}
	return all
}

// Owner returns the index of the member that began as the master of the slot of a key without braces, or of what is in
// them.
func (c *RedisCluster) Owner(ctx context.Context, key string) (int, error) {
	slot, err := c.members[0].ask(ctx, "CLUSTER KEYSLOT "+key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(slot)
	masters := len(c.members) / 2
	for i := range masters {
		if n < (i+1)*slots/masters {
			return i, err
		}
	}
	return 0, fmt.Errorf("embedtest: slot %q", slot)
}

// Close ends all members. Data and logs stay. Its error says that a member had ended by itself before.
func (c *RedisCluster) Close() error {
	var all []error
	for _, m := range c.members {
		all = append(all, m.Close())
	}
	return errors.Join(all...)
}
