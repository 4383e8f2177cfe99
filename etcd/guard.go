package etcd

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
)

// Guard returns comparisons for the If of a transaction of the caller's own, in the same etcd: it then commits only
// while h, a lease of a lock on this store, is held. There is no moment between the check and the write, so what the
// transaction protects is safe even from a holder that was suspended past its TTL.
//
//	resp, err := client.Txn(ctx).If(etcd.Guard(lease)...).Then(clientv3.OpPut("/balance", "100")).Commit()
//	// resp.Succeeded is false if the lease had ended, and lease.Err says why
//
// A guard never outlives its lease: once Guard was called, the lock is not handed off within this process, where the
// next lease would stand on the same entry. Leases for reading that share an entry already share the guard, which holds
// until the last of them is released; no writer holds before that.
//
// For a lease that has ended already, it returns a comparison that is never true.
func Guard(h farsync.Guarded) []clientv3.Cmp {
	entries, _ := h.GuardEntries() // a comparison has no other way to say why
	if len(entries) == 0 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("farsync"), "<", 0)}
	}
	guard := make([]clientv3.Cmp, len(entries))
	for i, e := range entries {
		// No two keys of a name were made at one revision, so the key that has this revision is the lease's own, whatever
		// value it has now.
		guard[i] = created(e)
	}
	return guard
}
