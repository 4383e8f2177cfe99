package redis

import (
	"context"
	"errors"
	"time"

	client "github.com/redis/go-redis/v9"
)

// eval runs a script at the server, and returns what follows the first word of its answer. It makes one attempt. If the
// server does not know the script, or the namespace is not introduced to it, nothing was carried out, and it is introduced
// first: it was restarted, has become the master, has lost its data, or is another one at the same address.
func (s *session) eval(ctx context.Context, script string, args ...any) (answer, error) {
	return s.call(ctx, func(ctx context.Context, l *link) (answer, error) {
		a, err := s.evalOn(ctx, l.Client, script, args)
		if !errors.Is(err, errUnknown) {
			return a, err
		}
		// INFO, introduce and SCRIPT LOAD are about one server only if they take one connection. If it breaks, so does this.
		conn := l.Conn()
		defer func() { _ = conn.Close() }()
		if err := s.introduce(ctx, conn); err != nil {
			return nil, err
		}
		return s.evalOn(ctx, conn, script, args)
	})
}

func (s *session) evalOn(ctx context.Context, conn client.Scripter, script string, args []any) (answer, error) {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if known == nil {
		return nil, errUnknown
	}
	list, err := conn.EvalSha(ctx, known.scripts[script].hash, []string{s.prefix}, args...).Slice()
	if client.HasErrorPrefix(err, "NOSCRIPT") {
		return nil, errUnknown
	}
	return parse(list, err)
}

// introduce makes the namespace known to the server, if it is not: all sessions end, and nothing is granted for as long as
// the longest TTL that was seen. Then the server is given the scripts.
func (s *session) introduce(ctx context.Context, conn *client.Conn) error {
	run, err := s.inspect(ctx, conn)
	if err != nil {
		return err
	}
	e := newEdition(s.options.Namespace, run)
	fresh := 0
	if s.options.Fresh {
		fresh = 1
	}
	for more := true; more; {
		a, err := parse(conn.Eval(ctx, e.scripts["introduce"].text, []string{s.prefix}, s.ttl.Microseconds(), fresh).Slice())
		if err != nil {
			return err
		}
		more = a.number(0) == 1
		if quiet := time.Duration(a.number(1)) * time.Microsecond; quiet > 0 {
			s.log.Warn("redis server is new to the namespace: its sessions have ended, and nothing is granted for a while",
				"for", quiet, "namespace", s.options.Namespace, "run_id", run)
		}
	}
	_, err = conn.Pipelined(ctx, func(p client.Pipeliner) error {
		for name, script := range e.scripts {
			if name != "introduce" {
				p.ScriptLoad(ctx, script.text)
			}
		}
		return nil
	})
	if err == nil {
		s.mu.Lock()
		s.known = e
		s.mu.Unlock()
	}
	return err
}
