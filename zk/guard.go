package zk

import (
	"crypto/rand"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync"
)

// Guard returns checks for a Multi of the caller's own, in the same ZooKeeper: it then commits only while h, a lease of
// a lock on this store, is held. There is no moment between the check and the write, so what the transaction protects
// is safe even from a holder that was suspended past its TTL.
//
//	_, err := conn.Multi(append(zk.Guard(lease), &client.SetDataRequest{Path: "/balance", Data: data, Version: -1})...)
//	// err is client.ErrNoNode if the lease had ended, and lease.Err says why
//
// A guard never outlives its lease: once Guard was called, the lock is not handed off within this process, where the
// next lease would stand on the same entry. Leases for reading that share an entry already share the guard, which holds
// until the last of them is released; no writer holds before that.
//
// For a lease that has ended already, it returns a check that fails always.
func Guard(h farsync.Guarded) []any {
	entries, _ := h.GuardEntries() // a check has no other way to say why
	if len(entries) == 0 {
		// No node has this name.
		return []any{&client.CheckVersionRequest{Path: "/zookeeper/" + rand.Text(), Version: -1}}
	}
	guard := make([]any, len(entries))
	for i, e := range entries {
		// That the node exists is enough: its name is used once. Its version may change, when a Curator client asks for
		// the lock back.
		guard[i] = &client.CheckVersionRequest{Path: e.ID, Version: -1}
	}
	return guard
}
