package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
)

// send runs the script at the server, all on one connection. If the server does not know it, or the namespace is not
// introduced to the server, nothing was carried out, and it is introduced first: it was restarted, has become the
// master, has lost its data, or is another one at the same address.
func (s *session) send(ctx context.Context, op string, args []any) (a answer, err error) {
	link := s.use()
	defer link.users.Done()
	node, err := s.node(ctx, link)
	if err != nil {
		return a, err
	}
	conn := node.Conn()
	defer func() { _ = conn.Close() }()
	a, err = s.evalOn(ctx, link, conn, op, args)
	if errors.Is(err, errUnknown) {
		if err = s.introduce(ctx, conn); err == nil {
			a, err = s.evalOn(ctx, link, conn, op, args)
		}
	}
	if err == nil && s.options.Replicas > 0 && (op == "open" || op == "renew") {
		err = s.confirm(ctx, conn)
	}
	if cluster, ok := link.UniversalClient.(*client.ClusterClient); ok && err != nil && s.Outcome(err) != driver.Refused {
		cluster.ReloadState(ctx) // another may be the master by now
	}
	return a, err
}

// node returns the client of the server that has the namespace.
func (s *session) node(ctx context.Context, link *link) (*client.Client, error) {
	cluster, ok := link.UniversalClient.(*client.ClusterClient)
	if !ok {
		return link.UniversalClient.(*client.Client), nil
	}
	node, err := cluster.MasterForKey(ctx, s.prefix)
	if err != nil {
		return nil, &failure{err, driver.NotDone}
	}
	return node, nil
}

func (s *session) evalOn(ctx context.Context, link *link, conn *client.Conn, op string, args []any) (answer, error) {
	s.mu.Lock()
	script := s.known
	s.mu.Unlock()
	list, err := script.EvalSha(ctx, conn, []string{s.prefix}, append([]any{op}, args...)...).StringSlice()
	if client.HasErrorPrefix(err, "NOSCRIPT") {
		err = errUnknown
	}
	if err != nil {
		return answer{}, err
	}
	link.heard.Store(time.Now().UnixNano())
	a, err := parse(list)
	if err == nil {
		s.noteSilence(a.silence)
	}
	return a, err
}

// introduce makes the namespace known to the server, if it is not: all sessions end, and nothing is granted for as long
// as the longest TTL that was seen. Then the server is given the script.
func (s *session) introduce(ctx context.Context, conn *client.Conn) error {
	run, err := s.inspect(ctx, conn)
	if err != nil {
		return err
	}
	script, met, fresh := s.script(run), s.met.Load(), 0
	if s.options.Fresh && met.term == 0 { // otherwise the namespace is known here, whatever the server knows
		fresh = 1
	}
	list, err := script.Eval(ctx, conn, []string{s.prefix}, "introduce",
		s.ttl.Microseconds(), fresh, script.Hash(), met.term, met.run).StringSlice()
	if err != nil {
		return err
	}
	a, err := parse(list)
	if err == nil {
		s.meet(introduction{a.register.Version, run})
	}
	if a.n > 0 {
		s.log.Info("redis server is new to the namespace: its sessions have ended, and it grants nothing for a while",
			"for", time.Duration(a.n)*time.Microsecond, "namespace", s.options.Namespace, "run_id", run)
	}
	if err == nil {
		err = script.Load(ctx, conn).Err() // what was sent by EVAL alone a server may forget
	}
	if err == nil {
		s.mu.Lock()
		s.known = script
		s.mu.Unlock()
	}
	return err
}

// confirm makes sure that the replicas have what was written on the connection.
func (s *session) confirm(ctx context.Context, conn *client.Conn) error {
	n, err := conn.Wait(ctx, s.options.Replicas, s.ttl/8).Result()
	if err == nil && n < int64(s.options.Replicas) {
		err = fmt.Errorf("%d of %d replicas have confirmed the renewal", n, s.options.Replicas)
	}
	return err
}
