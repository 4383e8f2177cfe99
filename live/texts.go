package live

import (
	"strings"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/legible"
)

// Everything that a survey tells of an entry was written by another process, and a neighbour may write megabytes. The
// part of it that is kept, by the last survey and in the messages to viewers, has these bounds, in bytes.
const (
	// mostError is how much is shown of why a Store does not answer.
	mostError = 1024
	// mostText is how much is shown of a holder's text: the values of elections may be long. So it is of the name of a
	// session.
	mostText = 256
	// mostID is how much is shown of an entry's ID. On etcd and ZooKeeper it contains the path, which has 1,024 bytes at
	// most.
	mostID = 2048
	// mostUnder is how much is kept of what an entry stands under, as much as farsync writes.
	mostUnder = 4096
	// mostOfEntry times the limit of entries is how much is kept of a Store. An ordinary entry has a tenth of it.
	mostOfEntry = 1024
)

// An allowance is how many bytes of text are still kept of a Store in this survey. Below zero it is used up.
type allowance int

// keep returns the lock with what is kept of its texts, in strings of their own: the strings of the survey are parts of
// all that the entry says. Once the allowance is used up the entries of the lock have a name, an ID and a session
// alone.
func (a *allowance) keep(lock farsync.LockInfo) farsync.LockInfo {
	*a -= allowance(len(lock.Path))
	for i := range lock.Participants {
		p := &lock.Participants[i]
		p.Holder, p.ID, p.Session = cut(p.Holder, mostText), cut(p.ID, mostID), cut(p.Session, mostText)
		if *a -= allowance(len(p.Holder) + len(p.ID) + len(p.Session)); *a < 0 {
			p.Note, p.WaitsFor, p.Left, p.Under = "", "", "", nil
			continue
		}
		p.Note, p.WaitsFor, p.Left = cut(p.Note, mostText), cut(p.WaitsFor, mostText), cut(p.Left, mostText)
		under := 0
		for j, id := range p.Under {
			if under += len(id); under > mostUnder {
				p.Under = p.Under[:j:j]
				break
			}
			p.Under[j] = cut(id, mostID) // as the ID of what it names
		}
		*a -= allowance(len(p.Note) + len(p.WaitsFor) + len(p.Left) + min(under, mostUnder))
	}
	return lock
}

// usedUp reports whether something was left out, or would be of the next lock.
func (a allowance) usedUp() bool { return a < 0 }

// cut returns what is shown of a text, a copy of no more than so many bytes of it. A character that a reader would not
// see, or would see in another place, is escaped.
func cut(text string, most int) string { return strings.Clone(legible.Line(legible.Cut(text, most))) }
