package farsync

// Members returns the leases on the members of a MultiMutex.
func (l *MultiLease) Members() []*Lease { return l.members.leases }

// Stalled keeps a lease of a QuorumMutex from beginning to take the other members, as a process that is stopped does, and returns
// how it begins when the process continues.
func (l *MultiLease) Stalled() (begin func()) {
	l.members.keeper.first.Stop()
	return l.members.keeper.begin
}
