package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// versions are the versions of members which, as the leader, can revoke live leases of an earlier term: they lack the
// fix of etcd's issue 15247. A cluster is up- and downgraded while its clients live, a member after the other. The
// version of the leader counts, and another leader has another term. So Open asks a member, and the first renewal all
// of them, as does a renewal that shows another term or that another member answers.
type versions struct {
	log *slog.Logger // nil if no line is to be logged

	looking sync.Mutex
	warned  string // Invariant: it is read and written with looking held
}

// asking is how long the members may take to say their versions.
const asking = time.Second

// look asks members for their versions, and warns of old ones if these are others than before. Members that do not
// answer in time say nothing.
func (v *versions) look(ctx context.Context, client *clientv3.Client, endpoints ...string) {
	if v.log == nil || !v.log.Enabled(ctx, slog.LevelWarn) || !v.looking.TryLock() {
		return
	}
	defer v.looking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	found := make([]string, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { // joined below
			status, _ := client.Status(ctx, endpoint)
			found[i] = (*pb.StatusResponse)(status).GetVersion()
		})
	}
	all.Wait()
	if !slices.ContainsFunc(found, func(version string) bool { return version != "" }) {
		return
	}
	slices.Sort(found)
	old := strings.Join(slices.DeleteFunc(slices.Compact(found), func(version string) bool { return !revokes(version) }), ", ")
	was := v.warned
	v.warned = old
	if old != "" && old != was {
		v.log.Warn("this etcd can let an old leader revoke live leases: upgrade to 3.5.13, 3.4.31 or later", "version", old)
	}
}

// revokes reports whether a server of a version can do so.
func revokes(version string) bool {
	var minor, patch int
	n, _ := fmt.Sscanf(version, "3.%d.%d", &minor, &patch)
	return n == 2 && (minor < 4 || minor == 4 && patch < 31 || minor == 5 && patch < 13)
}
