package etcd

import (
	"context"
	"strconv"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// pump has the watches of w set up by the client, where that has a Watcher of its own kind, of package namespace for
// example: it may change keys on the way. The function that it returns ends them. The client keeps a stream for each
// set of metadata, so the number of the stream is part of it.
func (s *session) pump(on *stream, w *waiter) (end func()) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(on.life, "farsync-watches", strconv.Itoa(on.number)))
	var all sync.WaitGroup
	for i := range w.list {
		all.Go(func() {
			x := &w.list[i]
			options := []clientv3.OpOption{clientv3.WithRange(x.end), clientv3.WithCreatedNotify()}
			if x.ends {
				options = append(options, clientv3.WithFilterPut())
			}
			events, open := s.client.Watch(ctx, x.key, options...), true
			for open {
				var resp clientv3.WatchResponse
				select {
				case <-ctx.Done(): // the client may keep to itself that a watch is over
					return
				case <-on.more:
					if on.next() != nil {
						// From here, for the client would open a stream for the request if there were none, and never close it.
						_ = s.client.RequestProgress(ctx)
					}
					continue
				case resp, open = <-events:
				}
				told := &pb.WatchResponse{
					Header: resp.Header, Events: resp.Events, Created: resp.Created, CompactRevision: resp.CompactRevision, Canceled: !open,
				}
				if err := resp.Err(); err != nil {
					told.Canceled, told.CancelReason = true, err.Error()
				}
				on.mu.Lock()
				_ = s.note(on, x, told) // the client has new credentials by itself
				on.mu.Unlock()
			}
		})
	}
	return func() { cancel(); all.Wait() }
}
