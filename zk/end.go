package zk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/farsync/farsync/driver"
)

// briefest is the timeout that End asks for. A server raises it to the shortest that it grants, which is two of its
// ticks.
const briefest = time.Millisecond

// sessionName is the ID of a session, as zkCli shows it, and its password, without which no server lets another
// connection speak for it.
func sessionName(id int64, password []byte) string {
	return fmt.Sprintf("0x%x-%x", uint64(id), password)
}

// parseSession undoes sessionName.
func parseSession(name string) (id int64, password []byte, err error) {
	text, secret, _ := strings.Cut(strings.TrimPrefix(name, "0x"), "-")
	number, err := strconv.ParseUint(text, 16, 64)
	if err == nil {
		password, err = hex.DecodeString(secret)
	}
	if err != nil {
		err = errors.New("not the name of a session") // which is not shown: it has the password
	}
	return int64(number), password, err
}

// End closes a session as its own client would, on a connection of its own. ZooKeeper has no other way that holds:
// nodes that another session deletes come back with a create that arrives later, for as long as their session lives.
// Once a session is closed, whatever arrives is refused, and with a session that has expired nothing is done.
//
// A connection becomes a session's by a ConnectRequest, and a server that accepts one touches the session: it expires
// no sooner than the timeout that the connection asks for. So the request to close goes in the same piece as the
// ConnectRequest. The server keeps it unread while it asks the leader about the session, and reads it next. Should it
// die just then, the session has the shortest timeout that there is, in place of its own: what is left of a longer one
// is cut down to that.
//
// A server that is asked lets go of the connection that it has of the session, with what it has not read from there. A
// request that another server still reads is refused by the leader: the session has moved, and then it is over.
func (s *service) End(ctx context.Context, session string) error {
	id, password, err := parseSession(session)
	if err != nil {
		return attemptError{err, driver.Refused}
	}
	w := s.wire(briefest)
	defer w.end(errEnded)
	w.id.Store(id)
	w.password = password
	dial, user, err := s.prepare(ctx, w)
	if err != nil {
		return notDone(err)
	}
	conn, err := dial(ctx, "tcp", s.servers[rand.N(len(s.servers))])
	if err != nil {
		return notDone(err)
	}
	l := newLink(w, conn)
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if err := l.closeSession(user); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// closeSession attaches the link to the session of its wire and closes that, and returns when the server says that it
// is closed, or was over.
func (l *link) closeSession(user *Digest) error {
	all := l.wire.connecting().sized()
	if user != nil { // servers can be told to do nothing for clients that have not said who they are
		all = append(all, authenticating(user).put(4, authXid).sized()...)
	}
	const xid = 1
	if _, err := l.Write(append(all, newFrame(opClose).put(4, xid).sized()...)); err != nil {
		return err
	}
	body, err := l.next()
	if err != nil {
		return err
	}
	d := decoder{p: body}
	_, _, id := d.number(), d.number(), d.long()
	if id == 0 {
		return nil // it was over
	}
	for {
		if body, err = l.next(); err != nil {
			return err
		}
		head := decoder{p: body}
		of, _, code := head.number(), head.long(), head.number()
		switch {
		case of == xid && code == errExpiry:
			return nil
		case of == xid, of == authXid && code != 0:
			return answer(code)
		}
	}
}
