package zk

import (
	"context"
	"errors"
	"fmt"

	client "github.com/go-zookeeper/zk"
)

// acl is what nodes are made with.
func (s *Store) acl() []client.ACL {
	if s.options.Digest != nil {
		return client.AuthACL(client.PermAll)
	}
	return client.WorldACL(client.PermAll)
}

// authorize tells the service who the Store is, in a new session. The library repeats it on every connection, once it
// has been answered.
func (s *Store) authorize(ctx context.Context, in *session) error {
	d := s.options.Digest
	if d == nil {
		return nil
	}
	_, _, err := retry(ctx, in, func(c *client.Conn) (struct{}, error) {
		return struct{}{}, c.AddAuth("digest", []byte(d.User+":"+d.Password))
	})
	return err
}

// makeParents makes the queue's node and those above it, as containers: the server removes them when they have been
// empty for a while, and they are made again.
func (s *Store) makeParents(ctx context.Context, in *session, queue string) error {
	acl := s.acl()
	for i := 1; i <= len(queue); i++ {
		if i < len(queue) && queue[i] != '/' {
			continue
		}
		path := queue[:i]
		_, _, err := retry(ctx, in, func(c *client.Conn) (string, error) {
			return c.CreateContainer(path, nil, client.FlagContainer, acl)
		})
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return fmt.Errorf("node %s: %w", path, err)
		}
	}
	return nil
}

// guarded makes sure that nobody else may delete what is in the queue: that right hangs on the queue's node.
func (s *Store) guarded(ctx context.Context, in *session, queue string) error {
	if s.options.Digest == nil {
		return nil
	}
	acl, _, err := retry(ctx, in, func(c *client.Conn) ([]client.ACL, error) {
		acl, _, err := c.GetACL(queue)
		return acl, err
	})
	if err != nil {
		return err
	}
	for _, a := range acl {
		if a.Scheme == "world" && a.Perms&(client.PermWrite|client.PermDelete|client.PermCreate|client.PermAdmin) != 0 {
			return openError(queue)
		}
	}
	return nil
}

// An openError is that of a queue to which everybody may write. It holds the path.
type openError string

func (path openError) Error() string {
	return fmt.Sprintf("node %q can be written to by everybody, who could delete what a Digest protects below it", string(path))
}
