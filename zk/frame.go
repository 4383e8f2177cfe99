package zk

import "encoding/binary"

// Numbers of ZooKeeper's protocol.
const (
	opCreate      = 1
	opExists      = 3
	opGetData     = 4
	opSetData     = 5
	opGetACL      = 6
	opSync        = 9
	opPing        = 11
	opGetChildren = 12
	opMulti       = 14
	opClose       = -11
	opSetWatches  = 101
	opError       = -1 // of a result within the answer to a Multi

	errNoNode = -101
	errExpiry = -112

	headerSize = 16 // of a reply: xid, zxid, error
	statSize   = 68
)

const (
	// maxFrame bounds what a peer can make us allocate. It holds the names of 200,000 nodes of a queue.
	maxFrame = 16 << 20
	// maxHandshake bounds the answer to a ConnectRequest, which is 37 bytes today.
	maxHandshake = 1024
	// tooLong is the error that stands for an answer above maxFrame. No server has such an error.
	tooLong = 0x7fffffff
)

// The library decodes what it is sent by reflection. Where a field ends too early it returns an error, but not
// everywhere.

// sound reports whether the library survives the body of an answer. It believes the count of a vector and the length of a
// buffer, and reads past the end of an answer to a Multi. A count that is cut off it completes from what the answer before has
// left in its memory.
func sound(op int32, body []byte) bool {
	n, ok := 0, true
	switch op {
	case opGetData: // less than none is no data
		_, ok = count(body, 1)
	case opGetChildren:
		n, ok = count(body, 4)
	case opGetACL:
		n, ok = count(body, 12)
	case opMulti:
		ok = complete(body)
	}
	return ok && n >= 0
}

// soundHandshake reports the same of the answer to a ConnectRequest: version, timeout, session, and a password. It has headerSize
// bytes at least.
func soundHandshake(body []byte) bool {
	_, ok := count(body[headerSize:], 1)
	return ok
}

// count returns the number that a vector or a buffer begins with, and whether p has room for as many items of that size.
func count(p []byte, size int) (n int, ok bool) {
	if len(p) < 4 {
		return 0, false
	}
	n = int(int32(binary.BigEndian.Uint32(p)))
	return n, n <= (len(p)-4)/size
}

// complete reports whether the results of a Multi end with the header that says so.
func complete(body []byte) bool {
	for len(body) >= 9 { // what it is of, whether it is the end, an error
		op, end := int32(binary.BigEndian.Uint32(body)), body[4] != 0
		if body = body[9:]; end {
			return true
		}
		size := map[int32]int{opError: 4, opCreate: 4 + len(text(body)), opSetData: statSize}[op]
		body = body[min(size, len(body)):]
	}
	return false
}

// text returns a string of the protocol, or nothing for what is none.
func text(p []byte) []byte {
	n, ok := count(p, 1)
	if !ok || n < 0 {
		return nil
	}
	return p[4 : 4+n]
}
