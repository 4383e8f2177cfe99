package zk

import (
	"encoding/binary"

	client "github.com/go-zookeeper/zk"
)

// Numbers of ZooKeeper's protocol.
const (
	opCreate      = 1
	opDelete      = 2
	opExists      = 3
	opGetData     = 4
	opSetData     = 5
	opGetACL      = 6
	opSync        = 9
	opGetChildren = 12
	opCheck       = 13
	opMulti       = 14
	opContainer   = 19
	opClose       = -11
	opSetAuth     = 100
	opSetWatches  = 101

	eventDeleted = 2

	headerSize = 16 // of a reply: xid, zxid, error
	statSize   = 68
)

// maxFrame bounds what a peer can make us allocate. It holds the names of 200,000 nodes of a queue.
const maxFrame = 16 << 20

// A frame is a request as it is sent: its length and its xid, which the link sets, its operation, and what belongs to
// that.
type frame []byte

func newFrame(op int32) frame { return append(make(frame, 8, 192), 0, 0, 0, 0).put(8, op) }

func (p frame) put(at int, n int32) frame {
	binary.BigEndian.PutUint32(p[at:], uint32(n))
	return p
}

// sized has the length put in front.
func (p frame) sized() frame { return p.put(0, int32(len(p)-4)) }

func (p frame) number(n int32) frame { return binary.BigEndian.AppendUint32(p, uint32(n)) }

func (p frame) long(n int64) frame { return binary.BigEndian.AppendUint64(p, uint64(n)) }

func (p frame) text(s string) frame { return append(p.number(int32(len(s))), s...) }

// create is what belongs to opCreate and to opContainer.
func (p frame) create(path string, data []byte, acl []client.ACL, flags int32) frame {
	p = p.text(path).text(string(data)).number(int32(len(acl)))
	for _, a := range acl {
		p = p.number(a.Perms).text(a.Scheme).text(a.ID)
	}
	return p.number(flags)
}

// check is what belongs to opCheck and to opDelete. To ZooKeeper the version -1 is any.
func (p frame) check(path string, version int32) frame { return p.text(path).number(version) }

// set is what belongs to opSetData.
func (p frame) set(path string, data []byte, version int32) frame {
	return p.text(path).text(string(data)).number(version)
}

// part begins an operation of a Multi, and end ends that.
func (p frame) part(op int32) frame { return append(p.number(op), 0).number(-1) }

func (p frame) end() frame { return append(p.number(-1), 1).number(-1) }

// A stat is what is of interest here of a node's.
type stat struct {
	created, time int64 // the zxid, and milliseconds since 1970
	version       int32
	owner         int64 // the session of an ephemeral node, or 0
}

// decode reads the answer to a call, and reports whether it is one.
func (c *call) decode(body []byte) bool {
	d := decoder{p: body}
	switch c.op {
	case opCreate:
		c.path = string(d.data())
	case opGetData:
		c.data = append([]byte(nil), d.data()...)
	case opGetChildren:
		c.names = d.children()
	case opGetACL:
		for n := d.count(12); n > 0; n-- {
			c.acl = append(c.acl, client.ACL{Perms: d.number(), Scheme: string(d.data()), ID: string(d.data())})
		}
	}
	// Where a part of a Multi fails, all of them are answered with an error (-1), the parts before it with the error 0.
	for c.op == opMulti && c.failed == 0 && d.number() == -1 && d.cut(1)[0] == 0 {
		d.number()
		c.failed = d.number()
	}
	if c.op == opGetData || c.op == opExists || c.op == opSetData {
		c.stat = d.stat()
	}
	return !d.short
}

// A decoder reads numbers and texts. Where it finds less than it should, it is short, and reads zeros.
type decoder struct {
	p     []byte
	short bool
}

func (d *decoder) cut(n int) (p []byte) {
	if n < 0 || n > len(d.p) {
		*d = decoder{short: true}
		return make([]byte, max(0, min(n, statSize)))
	}
	p, d.p = d.p[:n], d.p[n:]
	return p
}

func (d *decoder) number() int32 { return int32(binary.BigEndian.Uint32(d.cut(4))) }

func (d *decoder) long() int64 { return int64(binary.BigEndian.Uint64(d.cut(8))) }

// data returns a text or a buffer. Less than none is none.
func (d *decoder) data() []byte { return d.cut(int(max(d.number(), 0))) }

// count returns the number that a vector begins with, for which there is room if each item takes that many bytes.
func (d *decoder) count(least int) int {
	n := int(d.number())
	if n < 0 || n > len(d.p)/least {
		d.cut(-1)
		return 0
	}
	return n
}

// children returns a vector of texts.
func (d *decoder) children() children {
	n := d.count(4)
	all := d.p
	for ; n > 0; n-- {
		d.data()
	}
	if d.short {
		return ""
	}
	return children(all[:len(all)-len(d.p)])
}

// Children are the names of a node's children as the server sends them, each behind its length: of a long queue, most
// names are looked at once and are none of an entry that is kept.
type children string

// all yields the names.
func (c children) all(yield func(name string) bool) {
	for len(c) > 0 {
		end := 4 + max(int32(binary.BigEndian.Uint32([]byte(c[:4]))), 0)
		if !yield(string(c[4:end])) {
			return
		}
		c = c[end:]
	}
}

func (d *decoder) stat() stat {
	p, number, long := d.cut(statSize), binary.BigEndian.Uint32, binary.BigEndian.Uint64
	return stat{int64(long(p)), int64(long(p[16:])), int32(number(p[32:])), int64(long(p[44:]))}
}
