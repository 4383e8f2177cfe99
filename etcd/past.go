package etcd

import (
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A past is what the answers of a service have shown of its past. A cluster does not undo a write that it has answered.
// But its data may be put back: a snapshot is restored, or the disks of its machines are. Then it holds an election,
// mostly for another term, and its ID may be another. Where a machine goes on from a copy of its memory there is no
// election, but revisions fall.
//
// A linearizable answer is not older than any answer that came before its request was sent: a lower revision is proof.
// The answer to a renewal has the revision of the member that was asked, which may be behind the others for a moment.
// So a renewal is compared with what was seen when the last renewal was answered, a quarter of a TTL ago. If a member
// is further behind than that, it is a false alarm, which costs two reads.
//
// An election alone is no sign of an earlier state, and is taken for one all the same: the revisions may have grown
// again since. Neither do terms suffice: after the data were put back the next election may be for the very term that
// the service was in before.
type past struct {
	mu            sync.Mutex
	cluster, term uint64 // that the last renewal has shown
	falls         int    // answers that have shown an earlier state
	seen          int64  // the highest revision of an answer since the last of them
	settled       int64  // seen, when the last renewal was answered. Invariant: settled ≤ seen
}

// least returns the revision below which no answer lies to a request that is sent from now on, unless the service has
// gone back.
func (p *past) least() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// leastRenewed is least for a renewal.
func (p *past) leastRenewed() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled
}

// answered takes the header of the answer to a request before which least was what it says.
func (p *past) answered(header *pb.ResponseHeader, least int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see(header, least)
}

// renewed is answered for a renewal, and for the request that has opened the session. It reports whether the term is
// another.
func (p *past) renewed(header *pb.ResponseHeader, least int64) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.see(header, least) {
		changed = p.cluster != header.ClusterId || p.term != header.RaftTerm
		p.cluster, p.term, p.settled = header.ClusterId, header.RaftTerm, p.seen
	}
	return changed
}

// see takes what a header shows, if it shows anything: a proxy may leave it empty. The caller holds mu.
func (p *past) see(header *pb.ResponseHeader, least int64) bool {
	if header.GetRevision() == 0 {
		return false
	}
	if header.Revision < min(least, p.seen) { // where seen is lower another answer has shown it meanwhile
		p.falls++
		p.seen, p.settled = header.Revision, header.Revision
	}
	p.seen = max(p.seen, header.Revision)
	return true
}

// name names the past.
func (p *past) name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("cluster %x in term %d, gone back %d times", p.cluster, p.term, p.falls)
}
