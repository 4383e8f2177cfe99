//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RedisSentinels are processes that watch over a Redis master, and make one of its replicas the master when most of
// them agree that it is dead.
type RedisSentinels struct {
	// Name is what they call the master.
	Name string

	members []*RedisServer
	servers []*server
}

// StartRedisSentinels starts n Sentinels for a master that runs, with logs under dir, which is made if need be, and
// waits until they have found one another and the replicas that the master has, or ctx is done. A master that does not
// answer for half a second is replaced. Settings are further lines of their configuration. They live until Close; on
// failure nothing is left running. The error is [ErrNoRedis] where there is nothing to run.
func StartRedisSentinels(
	ctx context.Context, dir string, n int, master *RedisServer, settings ...string,
) (*RedisSentinels, error) {
	s := &RedisSentinels{Name: "farsync"}
	err := s.start(ctx, dir, n, master, settings)
	if err != nil {
		_ = s.Close() // err says it all
		return nil, err
	}
	return s, nil
}

func (s *RedisSentinels) start(ctx context.Context, dir string, n int, master *RedisServer, settings []string) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrNoRedis, err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	for i := range n {
		own := filepath.Join(dir, fmt.Sprintf("s%d", i))
		if err := os.MkdirAll(own, 0o700); err != nil {
			return err
		}
		kept, err := reservePort()
		if err != nil {
			return err
		}
		m := &RedisServer{server: server{
			name: fmt.Sprintf("Sentinel %d", i), log: filepath.Join(own, "log"), endpoint: kept.addr(), ports: []port{kept},
		}}
		m.probe = m.serving
		s.members = append(s.members, m)
		s.servers = append(s.servers, &m.server)
		// A Sentinel writes what it learns into its configuration.
		file := filepath.Join(own, "sentinel.conf")
		lines := append([]string{
			fmt.Sprint("port ", kept.number), "bind 127.0.0.1", "dir " + own,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", s.Name, master.ports[0].number, n/2+1),
			fmt.Sprintf("sentinel down-after-milliseconds %s 500", s.Name),
			fmt.Sprintf("sentinel failover-timeout %s 2000", s.Name),
		}, settings...)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return err
		}
		m.command = func() (*exec.Cmd, error) {
			command := exec.Command(program, file, "--sentinel")
			command.Dir = own
			return command, nil
		}
		if err := m.Restart(ctx); err != nil {
			return err
		}
	}
	for _, m := range s.members {
		if err := eventually(ctx, func() error {
			_, err := m.ask(ctx, "SENTINEL CKQUORUM "+s.Name)
			return err
		}); err != nil {
			return err
		}
		if err := eventually(ctx, func() error { return s.sees(ctx, m, n) }); err != nil {
			return err
		}
	}
	return nil
}

// sees returns nil once a Sentinel knows all others and a replica.
func (s *RedisSentinels) sees(ctx context.Context, m *RedisServer, n int) error {
	text, err := m.ask(ctx, "INFO sentinel")
	if err == nil && (!strings.Contains(text, fmt.Sprint("sentinels=", n)) || strings.Contains(text, "slaves=0")) {
		err = fmt.Errorf("%s: %s", m.name, text)
	}
	return err
}

// Endpoints returns the addresses of all of them.
func (s *RedisSentinels) Endpoints() (all []string) {
	for _, m := range s.members {
		all = append(all, m.Endpoint())
	}
	return all
}

// Member returns one of them.
func (s *RedisSentinels) Member(i int) *RedisServer { return s.members[i] }

// Close ends all Sentinels. Its error says that a Sentinel had ended by itself before.
func (s *RedisSentinels) Close() error {
	var all []error
	for _, m := range s.members {
		all = append(all, m.Close())
	}
	return errors.Join(all...)
}
