package redis

import (
	"context"
	"crypto/rand"
	"fmt"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
)

// countable is how many units a semaphore may have: the numbers of a script are doubles, and beyond this they are
// rounded.
const countable = 1<<53 - 1

// NewID returns the kind and random text. All random texts have one length.
func (s *session) NewID(_ string, k driver.Kind, _ int64) string {
	return k.String() + "-" + rand.Text()
}

// Create appends an entry, and shows what is ahead. A permit of more units than can be counted has more than any
// semaphore, and is never granted: whoever looks at the size finds that out.
func (s *session) Create(ctx context.Context, e driver.Entry, _ int) (driver.View, error) {
	var since int64
	if !e.Since.IsZero() {
		since = e.Since.UnixMicro()
	}
	return s.view(ctx, e, "create", e.Value, since, s.ttl.Microseconds())
}

// Ahead looks.
func (s *session) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	if waiting {
		return s.view(ctx, e, "ahead", 1)
	}
	return s.view(ctx, e, "ahead", 0)
}

// view makes a request that shows what is ahead of e, and listens for e from before it is sent: what is published to it
// meanwhile may be faster than the answer that says what it waits for.
func (s *session) view(ctx context.Context, e driver.Entry, op string, more ...any) (v driver.View, err error) {
	s.mailbox.hush(s.mailbox.take(e.ID))
	in := s.mailbox.listen(e.ID)
	a, err := s.eval(ctx, op, append([]any{s.id, e.ID, e.Queue, e.Kind.String(), e.Units}, more...)...)
	v = driver.View{Self: e, Entries: a.entries, All: a.all, Register: a.register}
	if err == nil && e.ID != "" {
		v.Self, v.Entries = a.entries[0], a.entries[1:]
		v.Self.Value = nil
	}
	v.Silent = len(v.Entries) == 1 && v.Entries[0].ID == "silence"
	if a.n == 1 { // the server has noted the session
		s.mailbox.put(in, v)
	} else {
		s.mailbox.hush(in)
	}
	return v, err
}

// listPage is how many entries one request of List shows.
const listPage = 256

// List reads the queue from its beginning, page by page: what leaves meanwhile may be shown.
func (s *session) List(ctx context.Context, queue string, limit int) (v driver.View, err error) {
	for after := int64(-1); ; after = v.Entries[len(v.Entries)-1].Revision {
		page := listPage
		if limit > 0 {
			page = min(page, limit-len(v.Entries))
		}
		a, err := s.look(ctx, "list", queue, after, page)
		v.Entries, v.Silent = append(v.Entries, a.entries...), a.n == 1
		if v.All = len(a.entries) < page; err != nil || v.All || len(v.Entries) == limit {
			return v, err
		}
		if v.Entries[len(v.Entries)-1].Revision <= after {
			return v, nil // a score beyond what counts as one, which another program has written: nothing is behind it
		}
	}
}

// Find reads the hash of e.
func (s *session) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	return s.one(ctx, "find", e.ID)
}

// Replace changes the hash of e, which keeps its revision and its ID.
func (s *session) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	given := 1
	if value == nil {
		given = 0
	}
	return s.one(ctx, "replace", e.ID, e.Version, k.String(), given, value)
}

// look makes a request that changes nothing, and which the server refuses where a key has a value of another kind, of
// another program: it would be refused again.
func (s *session) look(ctx context.Context, op string, args ...any) (answer, error) {
	a, err := s.eval(ctx, op, args...)
	if client.HasErrorPrefix(err, "WRONGTYPE") {
		err = &failure{err, driver.Refused}
	}
	return a, err
}

// one makes a request whose answer shows one entry.
func (s *session) one(ctx context.Context, op string, args ...any) (e driver.Entry, err error) {
	a, err := s.eval(ctx, op, args...)
	if err == nil {
		e = a.entries[0]
	}
	return e, err
}

// Delete removes e. Its ID is no other entry's. The next entry's session looks for itself.
func (s *session) Delete(ctx context.Context, e driver.Entry) (driver.View, bool, error) {
	s.mailbox.hush(s.mailbox.take(e.ID))
	a, err := s.eval(ctx, "delete", e.ID)
	return driver.View{}, a.n == 1, err
}

// Register reads the register of a queue.
func (s *session) Register(ctx context.Context, queue string) (driver.Register, error) {
	a, err := s.look(ctx, "register", queue)
	return a.register, err
}

// SetRegister writes it. A register is never removed, so its versions never go back. A size that cannot be counted to
// is refused.
func (s *session) SetRegister(ctx context.Context, queue, value string, version int64, head driver.Entry) (int64, error) {
	var declared, current int64
	if n, _ := fmt.Sscanf(value, "%d %d", &declared, &current); n == 2 && current > countable {
		return 0, errLarge
	}
	a, err := s.eval(ctx, "set", queue, value, version, head.ID)
	return a.n, err
}

// Owned reads the entries of the session, whatever their queue.
func (s *session) Owned(ctx context.Context, _ []string) ([]driver.Entry, error) {
	a, err := s.eval(ctx, "owned", s.id)
	return a.entries, err
}

// Survey reads whole queues, in the order of their paths.
func (s *session) Survey(ctx context.Context, prefix, after string, limit int) (driver.View, error) {
	from := "[" + prefix
	if after != "" && after >= prefix {
		from = "(" + after
	}
	a, err := s.look(ctx, "survey", prefix, from, limit)
	return driver.View{Entries: a.entries, Silent: a.n == 1}, err
}

// Tell writes the words into the hash of e, and publishes that to its session.
func (s *session) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	_, err = s.eval(ctx, "tell", e.ID, words)
	return false, err
}

// Heard reads the words.
func (s *session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	a, err := s.eval(ctx, "find", e.ID)
	return a.register.Value, err
}
