package farsync

import (
	"fmt"
	"strconv"
)

// A Token is a fencing token: a number by which a resource tells a holder who is late from a holder who came after.
// Over the exclusive holders of one path it strictly increases, also over restarts of all processes and servers, over
// lost sessions, and over turns that are handed off within a process.
//
// A resource that is to be protected remembers the highest token it has seen and refuses a request with a lower one. A
// read that a write depends on counts as a request: if it does not bring the token along, a late write may still be
// let in between the two.
// The tokens of readers and of permits identify, but do not fence holders at the same time from one another.
//
// Tokens of different locks do not compare. Neither do tokens of different stores, nor tokens from before and after a
// store was restored from a backup that set its revisions back.
//
// A token is a whole number above 0, and takes up to 63 bits. The zero Token belongs to no lease. A program that reads
// numbers as floats, as JavaScript, jq and Lua do, rounds it, and takes the tokens of two holders for the same. So a
// Token is text, its digits, wherever it leaves the program as text: with fmt, encoding/json and log/slog, as the value
// of a key in Redis. A column for it is a bigint: database/sql and pgx write a Token as the number, and read it into
// one. In a column of text it would compare digit by digit.
type Token int64

// A token is the revision at which the store made the lease's entry (etcd: create revision, ZooKeeper: czxid), and the
// number of the turn, by which that entry was handed off within its process, in the low bits. Users are not promised
// that.
const (
	turnBits    = 8
	maxRevision = 1<<(63-turnBits) - 1
)

// A Token has neither Value nor Scan. By its kind database/sql takes it for an integer, which is what a bigint needs,
// and parses one from what it reads, a number or digits. A Value of text would have a database choose how it compares a
// bigint with text.

func makeToken(revision int64, turn int) Token {
	return Token(revision<<turnBits | int64(turn))
}

// turn is the number of the turn in the token.
func (t Token) turn() int { return int(t & (1<<turnBits - 1)) }

// Revision is the store's revision in the token, for a resource that compares it with revisions of other clients.
func (t Token) Revision() int64 { return int64(t) >> turnBits }

// String returns the token in decimal digits.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText returns the digits of String. So in JSON a token is a string.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the digits that MarshalText writes, and no other form of the number: one token has one text.
// After an error t is as it was. A JSON number is refused, too: it may have been rounded on the way.
func (t *Token) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || Token(n).String() != string(text) {
		return fmt.Errorf("farsync: %.64q is no token", text)
	}
	*t = Token(n)
	return nil
}

// MarshalBinary returns the digits of String. Clients of Redis write a token by it.
func (t Token) MarshalBinary() ([]byte, error) { return t.MarshalText() }

// UnmarshalBinary reads the digits that MarshalBinary writes, as UnmarshalText does.
func (t *Token) UnmarshalBinary(data []byte) error { return t.UnmarshalText(data) }
