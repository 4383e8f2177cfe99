package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// Tell puts the key where the holder of e is asked for it, in the session of the client that asks.
func (s *session) Tell(ctx context.Context, e driver.Entry, words string) error {
	_, err := s.commit(ctx, txn{
		compare: []clientv3.Cmp{created(e)}, failed: driver.ErrGone,
		then: []clientv3.Op{clientv3.OpPut(askKey(e), words, clientv3.WithLease(s.lease))},
	})
	return err
}

// Heard reads that key, and whether e is still there to be asked for.
func (s *session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	resp, err := s.commit(ctx, txn{
		compare: []clientv3.Cmp{created(e)}, failed: driver.ErrGone,
		then: []clientv3.Op{clientv3.OpGet(askKey(e))},
	})
	if err != nil {
		return "", err
	}
	return string(first(resp.read(0).Kvs).GetValue()), nil
}
