package zk

import (
	"context"
	"errors"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// Replace sets the data of the entry's node; or it makes a reader's node of a writer's, in one transaction: the new one
// has the old one's sequence, and with it its place, as in Curator since 5.5.
func (s *session) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	to := e
	switch {
	case value != nil:
		to.Value = value
	case k == e.Kind:
		return e, nil
	case e.Value == nil: // it is not known
		now, err := s.Find(ctx, e)
		if err != nil {
			return e, notDone(err)
		}
		to.Value = now.Value
	}
	// To ZooKeeper -1 is any version, which is what comes out if it is not known.
	was := int32(e.Version - 1)
	if k == e.Kind {
		changing := newCall(newFrame(opSetData).set(e.ID, to.Value, was))
		if err := s.ask(ctx, changing); err != nil {
			return e, err
		}
		to.Version = version(&changing.stat)
		return to, nil
	}
	to.ID, to.Kind, to.Version = readName(e.ID), k, 1
	// The transaction is carried out as a whole or not at all, so each refusal says that nothing was changed. The order
	// matters for the answer: it names the first part that fails. A reader's node that is there already was made by an
	// earlier attempt.
	return to, s.do(ctx, newFrame(opMulti).
		part(opCreate).create(to.ID, to.Value, s.acl, client.FlagEphemeral).part(opDelete).check(e.ID, was).end())
}

// Delete deletes the entry's node. The node is no other entry's, so its version does not matter: a Curator client may
// have written to it, to ask for the lock back. If a writer's is gone, it deletes the reader's that has its place: a
// replacement whose answer was lost may have made it.
//
// A copy that another client has put in the place of e stays, where it was seen before. Another client's entry is
// looked at for that, an own entry is not: a release is one request.
func (s *session) Delete(ctx context.Context, e driver.Entry) (v driver.View, found bool, err error) {
	if s.wasCopied(e.ID) {
		return v, false, nil
	}
	if e, err = s.search(ctx, e); err == nil && e.Revision != 0 && !strings.HasPrefix(nameOf(e.ID), s.mark) {
		if found, err := s.Find(ctx, e); err == nil {
			e = found
		} else if outcome(err) != driver.Refused || errors.Is(err, driver.ErrGone) {
			return v, false, gone(notDone(err))
		}
	}
	if err != nil {
		err = notDone(err)
	} else if err = s.do(ctx, newFrame(opDelete).check(e.ID, -1)); errors.Is(err, driver.ErrGone) && e.Kind == driver.Write {
		err = s.do(ctx, newFrame(opDelete).check(readName(e.ID), -1))
	}
	if errors.Is(err, driver.ErrGone) {
		return v, false, nil
	}
	return v, err == nil, err
}

// gone returns nil for an error that says that an entry is gone, and any other as it is.
func gone(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// register returns what stands in the node of a queue. It lasts as long as the node, which the server removes when it
// has been empty for a while. Numbers are a register. Whatever else a program writes there, Curator its address, is
// none, and may be overwritten.
func (r *read) register() driver.Register {
	text := string(r.data)
	if text == "" || strings.Trim(text, "0123456789 ") != "" {
		return driver.Register{}
	}
	return driver.Register{Value: text, Version: version(&r.stat)}
}

// Register reads the data of the queue's node.
func (s *session) Register(ctx context.Context, name string) (driver.Register, error) {
	r, err := s.node(ctx, s.path(name))
	switch {
	case err == nil:
		return r.register(), nil
	case errors.Is(err, driver.ErrGone):
		err = nil
	}
	return driver.Register{}, err
}

// SetRegister sets the data of the queue's node, or makes the node. Where there is no register, it reads what is there
// instead, to write in its place.
func (s *session) SetRegister(ctx context.Context, name, value string, was int64, head driver.Entry) (written int64, err error) {
	path := s.path(name)
	if was == 0 {
		r, err := s.node(ctx, path)
		switch {
		case errors.Is(err, driver.ErrGone) && head.ID == "":
			return 1, s.makeQueue(ctx, path, []byte(value), s.acl)
		case errors.Is(err, driver.ErrGone), err == nil && r.register().Version != 0:
			return 0, driver.ErrConflict
		case err != nil:
			return 0, notDone(err)
		}
		was = version(&r.stat)
	}
	// The head is checked in the same transaction: a client that has lost its place at the head must not write.
	setting := newFrame(opMulti).part(opSetData).set(path, []byte(value), int32(was-1))
	if head.ID != "" {
		setting = setting.part(opCheck).check(head.ID, -1)
	}
	err = s.do(ctx, setting.end())
	if errors.Is(err, driver.ErrGone) {
		err = driver.ErrConflict
	}
	return was + 1, err
}

// revoke is what Curator's Revoker writes to a node to ask for it back. It notifies a holder of Curator's that has
// made its lock revocable.
const revoke = "__REVOKE__"

// told is the first line of words that only farsync hears. Curator's word has to stand alone in the node.
const told = "__TOLD__\n"

// Tell writes Curator's word to the entry's node, whatever the words are: Curator has no other. Words of several lines
// are not for Curator, and are written whole.
func (s *session) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	data := revoke
	if strings.Contains(words, "\n") {
		data = told + words
	}
	return false, s.do(ctx, newFrame(opSetData).set(e.ID, []byte(data), -1))
}

// Heard returns what Tell has written to the entry's node, or Curator.
func (s *session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	r, err := s.entry(ctx, &e)
	if err != nil {
		return "", err
	}
	return words(r.data), nil
}

// words returns what was left in a node, or the empty string if it is the holder's own text.
func words(data []byte) string {
	if words, ok := strings.CutPrefix(string(data), told); ok || words == revoke {
		return words
	}
	return ""
}

// Touch does nothing: on ZooKeeper a waiter watches its predecessor, and is told by no other.
func (s *session) Touch(context.Context, driver.View) (driver.View, error) { return driver.View{}, nil }
