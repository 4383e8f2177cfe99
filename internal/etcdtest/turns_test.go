package etcdtest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
)

// These are the shortest ways to what goes wrong in docs/reports/MODEL.md where a condition of "A release that names the next" is left out. Nothing
// in them looks by itself: no driver does.

// A row is a queue, in which sessions stand.
type row struct {
	*testing.T
	queue    string
	admin    *clientv3.Client
	endpoint string
}

func newRow(t *testing.T) row {
	server, admin := begin(t)
	return row{t, newPath(t), admin, server.Endpoint()}
}

// A stander is an entry that knows turns.
type stander struct {
	session
	row row
	v   driver.View
}

// open returns a session.
func (r row) open() session { return openSession(r, newClient(r, r.endpoint)) }

// join appends an entry of a session to the queue.
func (r row) join(in session) *stander {
	r.Helper()
	p := &stander{session: in, row: r}
	p.create(in.entry(r.queue, driver.Exclusive))
	return p
}

func (p *stander) create(e driver.Entry) {
	var err error
	p.v, err = p.Create(p.row.Context(), e, 0)
	require.NoError(p.row, err)
}

// joins is join with a session of its own.
func (r row) joins() *stander { return r.join(r.open()) }

// alone is joins in an empty queue: it holds.
func (r row) alone() *stander {
	p := r.joins()
	require.True(r, p.v.All && len(p.v.Entries) == 0)
	return p
}

// second is joins behind one: it watches that.
func (r row) second() *stander {
	p := r.joins()
	require.True(r, p.v.All && len(p.v.Entries) == 1 && !p.v.Turn)
	return p
}

// third is joins behind more: it awaits its turn.
func (r row) third() *stander {
	r.Helper()
	p := r.joins()
	require.True(r, p.v.Turn)
	return p
}

// name is what an entry and its turn have in common.
func (p *stander) name() string { return p.v.Self.ID[strings.LastIndexByte(p.v.Self.ID, '-')+1:] }

// out is the delete of an entry, without what may have to follow.
func (p *stander) out() driver.View {
	p.row.Helper()
	v, _, err := p.Delete(p.row.Context(), p.v.Self)
	require.NoError(p.row, err)
	return v
}

// leave is what the Store makes of a delete.
func (p *stander) leave() {
	p.row.Helper()
	p.touch(p.out())
}

// touch is what follows a delete.
func (p *stander) touch(v driver.View) {
	for v.Turn {
		var err error
		v, err = p.Touch(p.row.Context(), v)
		require.NoError(p.row, err)
	}
}

// waits begins to wait as the answer to the join says, and returns when that stands. The proof comes when it is granted.
func (p *stander) waits() <-chan *driver.View {
	on := driver.Target{Entry: p.v.Entries[len(p.v.Entries)-1], Alone: p.v.All && len(p.v.Entries) == 1}
	if p.v.Turn {
		on.What = driver.Turn
	}
	ctx := within(p.row, soon)
	proofs, stands := make(chan *driver.View, 1), make(chan struct{})
	go func() {
		stood := sync.OnceFunc(func() { close(stands) })
		proof, err := p.Watch(ctx, p.v.Self, []driver.Target{on}, stood)
		if err == nil {
			proofs <- proof
		}
		stood()
	}()
	<-stands
	return proofs
}

// granted requires that a proof comes.
func (p *stander) granted(proofs <-chan *driver.View) {
	p.row.Helper()
	select {
	case proof := <-proofs:
		require.NotNil(p.row, proof)
		require.Equal(p.row, p.v.Self, proof.Self)
		require.True(p.row, proof.All && len(proof.Entries) == 0)
	case <-within(p.row, soon).Done():
		require.Fail(p.row, "nothing has told it")
	}
	require.Equal(p.row, p.v.Self.ID, string(keysOf(p.row, p.admin(), p.row.queue)[0].Key), "it is the head")
}

func (p *stander) admin() *clientv3.Client { return p.row.admin }

// turns requires that those have a turn, and no others.
func (r row) turns(those ...*stander) {
	r.Helper()
	var names, want []string
	for _, kv := range keysOf(r, r.admin, r.queue+"!turn") {
		names = append(names, string(kv.Key[strings.LastIndexByte(string(kv.Key), '/')+1:]))
	}
	for _, p := range those {
		want = append(want, p.name())
	}
	slices.Sort(names)
	slices.Sort(want)
	require.Equal(r, want, names)
}

// put puts the key of another program into the queue.
func (r row) put(name string) driver.Entry {
	lease, err := r.admin.Grant(r.Context(), 600)
	require.NoError(r, err)
	e := driver.Entry{Queue: r.queue, ID: r.queue + "/" + name}
	resp, err := r.admin.Put(r.Context(), e.ID, "", clientv3.WithLease(lease.ID))
	require.NoError(r, err)
	e.Revision = resp.Header.Revision
	return e
}

func (r row) remove(e driver.Entry) { administrator{r.admin}.remove(r.T, e) }

// look is a touch by whoever comes.
func (r row) look() {
	p := &stander{session: r.open(), row: r}
	p.touch(driver.View{Self: driver.Entry{Queue: r.queue}, Turn: true})
}

// TestTurnGoesToTheHead: not to the one behind the one that leaves.
func TestTurnGoesToTheHead(t *testing.T) {
	r := newRow(t)
	a, b, c := r.alone(), r.second(), r.third()
	waits := c.waits()
	b.leave()
	r.turns(a)
	a.leave()
	c.granted(waits)
	r.turns(c)
	c.leave()
	r.turns()
}

// TestTurnGoesToTheOldest: the keys of those behind it sort before its own, and are more than a page.
func TestTurnGoesToTheOldest(t *testing.T) {
	r := newRow(t)
	var sessions []session
	for range 6 {
		sessions = append(sessions, r.open())
	}
	var all []*stander
	for _, in := range slices.Backward(sessions) {
		all = append(all, r.join(in))
	}
	require.Less(t, all[5].v.Self.ID, all[0].v.Self.ID)
	all[3].leave()
	r.turns(all[0])
	waits := all[2].waits()
	all[1].leave()
	r.turns(all[0])
	all[0].leave()
	all[2].granted(waits)
	r.turns(all[2])
}

// TestTurnIsForAnEntryThatIsThere: the head that a look has shown goes before it is told.
func TestTurnIsForAnEntryThatIsThere(t *testing.T) {
	r := newRow(t)
	a, b, c := r.alone(), r.second(), r.third()
	waits := c.waits()
	v := b.out()
	require.Equal(t, a.v.Self.ID, v.Entries[0].ID)
	require.False(t, a.out().Turn, "it joined alone, and has no turn")
	r.turns()
	b.touch(v)
	c.granted(waits)
	r.turns(c)
}

// TestTurnIsForOneEntry: a turn that is on its way to an entry that is given up does not grant the next of that Store, though that has the
// same key.
func TestTurnIsForOneEntry(t *testing.T) {
	r := newRow(t)
	a, b, c, d := r.alone(), r.second(), r.third(), r.third()
	other := r.join(b.session) // it keeps the watch on the turns of b's session
	_ = other.waits()
	a.touch(driver.View{Self: driver.Entry{Queue: r.queue}, Turn: true})
	a.leave()
	r.look()
	r.turns(b)
	b.leave()
	r.turns(c)
	again := r.join(b.session)
	require.Equal(t, b.v.Self.ID, again.v.Self.ID, "a key that is used again")
	waits := again.waits()
	c.leave()
	d.leave()
	r.turns(other)
	require.Empty(t, waits)
	other.leave()
	again.granted(waits)
	again.leave()
	r.turns()
}

// TestWaiterThatLeavesLooks: the one before it joined alone and has gone without a look, since it watched that.
func TestWaiterThatLeavesLooks(t *testing.T) {
	for _, name := range []string{"it was told", "it was not", "another leaves in between"} {
		t.Run(name, func(t *testing.T) {
			r := newRow(t)
			a, b, c := r.alone(), r.second(), r.third()
			waits, watches := c.waits(), b.waits()
			require.False(t, a.out().Turn)
			switch name {
			case "it was told":
				b.granted(watches)
			case "another leaves in between":
				r.third().leave()
			}
			b.leave()
			c.granted(waits)
		})
	}
}

// TestTurnThatCameBeforeTheWatch: it is read when the watch is on, or was told by one that was on before the join.
func TestTurnThatCameBeforeTheWatch(t *testing.T) {
	r := newRow(t)
	a, b, c, d := r.alone(), r.second(), r.third(), r.third()
	later := r.join(d.session)
	a.leave()
	b.leave()
	c.granted(c.waits())
	_ = later.waits() // so that the watch is on, for those that join from now on
	last := r.join(d.session)
	c.leave()
	d.granted(d.waits())
	d.leave()
	later.leave()
	last.granted(last.waits())
}

// TestHolderThatJoinedAloneAsksForItsTurn: who left behind it has given it one, and relied on it to look.
func TestHolderThatJoinedAloneAsksForItsTurn(t *testing.T) {
	r := newRow(t)
	a, b, c := r.alone(), r.second(), r.third()
	waits := c.waits()
	b.leave()
	a.leave()
	c.granted(waits)
	c.leave()
	r.turns()

	a, b, c = r.alone(), r.second(), r.third()
	b.leave()
	c.leave()
	r.turns(a)
	a.leave()
	r.turns()
}

// TestReleaseThatIsRepeatedLooks: its answer was lost, so those whose turn it may be have not been told.
func TestReleaseThatIsRepeatedLooks(t *testing.T) {
	r := newRow(t)
	a, b, c := r.alone(), r.second(), r.third()
	waits := c.waits()
	b.leave()
	_ = a.out()
	a.leave()
	c.granted(waits)

	// The same of one that leaves, below the driver.
	f := new(faults)
	second := r.second()
	lossy := r.join(openSession(t, newClient(t, r.endpoint, f.dial()...)))
	last := r.third()
	waits = last.waits()
	c.leave()
	second.leave()
	f.next(txn, loseReply)
	_, _, err := lossy.Delete(t.Context(), lossy.v.Self)
	require.Equal(t, driver.Unknown, lossy.Outcome(err))
	lossy.leave()
	last.granted(waits)
}

// TestLateJoinIsRemovedWithALook: others have joined behind it.
func TestLateJoinIsRemovedWithALook(t *testing.T) {
	r := newRow(t)
	in := r.open()
	ghost := &stander{session: in, row: r}
	e := in.entry(r.queue, driver.Exclusive)
	_, found, err := in.Delete(t.Context(), e)
	require.NoError(t, err)
	require.False(t, found)
	b := r.alone()
	ghost.create(e)
	ghost.v.Self.Revision = 0 // it is not known
	c := r.third()
	waits := c.waits()
	require.False(t, b.out().Turn)
	ghost.leave()
	c.granted(waits)
}

// TestLateDeleteRemovesNothing: one that was asked for before the revision of the entry was known sends none at all.
func TestLateDeleteRemovesNothing(t *testing.T) {
	r := newRow(t)
	f := new(faults)
	in := openSession(t, newClient(t, r.endpoint, f.dial()...))
	e := in.entry(r.queue, driver.Exclusive)
	before := f.calls(txn)
	_, found, err := in.Delete(t.Context(), e)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, before, f.calls(txn))

	// A delete that arrives when another entry has the key changes neither that nor its turn.
	a := r.join(in)
	late, land := delay()
	f.next(txn, late)
	_, _, err = in.Delete(t.Context(), a.v.Self)
	require.Error(t, err)
	a.leave()
	v, err := in.Create(t.Context(), driver.Entry{Queue: r.queue, ID: a.v.Self.ID, Kind: driver.Exclusive, Units: 1}, 0)
	require.NoError(t, err)
	again := &stander{session: in, row: r, v: v}
	r.look()
	r.turns(again)
	_, err = land(t.Context())
	require.NoError(t, err)
	r.turns(again)
	require.Equal(t, v.Self.ID, string(keysOf(t, r.admin, r.queue)[0].Key))
}

// TestEndOfASessionAfterALostJoinTellsTheNext: the session ends before it has learned that its entry is there, and others have joined behind that.
func TestEndOfASessionAfterALostJoinTellsTheNext(t *testing.T) {
	for _, name := range []string{"the removal has not begun", "the removal has had no answer"} {
		t.Run(name, func(t *testing.T) {
			r := newRow(t)
			f := new(faults)
			in := openSession(t, newClient(t, r.endpoint, f.dial()...))
			a := r.alone()
			e := in.entry(r.queue, driver.Exclusive)
			f.next(txn, loseReply)
			_, err := in.Create(t.Context(), e, 0)
			require.Equal(t, driver.Unknown, in.Outcome(err))
			if name == "the removal has had no answer" {
				f.next(getRange, loseReply)
				_, _, err = in.Delete(t.Context(), e)
				require.Equal(t, driver.Unknown, in.Outcome(err))
			}
			c := r.third()
			waits := c.waits()
			require.NoError(t, in.Close(t.Context()))
			a.leave()
			c.granted(waits)
			c.leave()
			r.turns()
		})
	}
}

// TestEndOfASessionWithoutAnAnswerTellsTheNext: its lease was revoked, and the answer lost.
func TestEndOfASessionWithoutAnAnswerTellsTheNext(t *testing.T) {
	for _, row := range []struct {
		name  string
		bound time.Duration // of Close
		long  string
	}{
		{"the connection breaks", soon, ""},
		{"the member is silent", 2 * time.Second, "an answer has to come within a second"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.long != "" {
				suite.Long(t, suite.Etcd, row.long)
			}
			r := newRow(t)
			f := new(faults)
			a := r.alone()
			second := r.join(openSession(t, newClient(t, r.endpoint, f.dial()...)))
			b := r.third()
			waits := b.waits()
			f.next("/etcdserverpb.Lease/LeaseRevoke", func(ctx context.Context, send func(context.Context) (any, error)) error {
				err := loseReply(ctx, send)
				if row.name == "the member is silent" {
					<-ctx.Done()
					err = ctx.Err()
				}
				return err
			})
			ctx, cancel := context.WithTimeout(t.Context(), row.bound)
			defer cancel()
			require.NoError(t, second.Close(ctx))
			a.leave()
			b.granted(waits)
		})
	}
}

// TestEntryOfAnotherProgramIsWatched: whoever joins behind one does not await a turn, wherever its key sorts and however many others there are.
func TestEntryOfAnotherProgramIsWatched(t *testing.T) {
	for _, name := range []string{"694d8af1b3c2a017", "m-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "m-t1.", "w-x", "zzz", "0/further", "zz/further"} {
		t.Run(name, func(t *testing.T) {
			r := newRow(t)
			a, b, c := r.alone(), r.second(), r.third()
			other := r.put(name)
			for range 3 {
				d := r.joins()
				require.False(t, d.v.Turn)
				require.True(t, d.v.All || len(d.v.Entries) == 0)
			}
			waits := c.waits()
			for _, p := range []*stander{a, b} {
				p.leave()
			}
			c.granted(waits)
			c.leave()
			if !strings.Contains(name, "/") {
				r.turns()
			}
			r.remove(other)
		})
	}
}

// TestSingleEntryAheadIsWatched: it may leave without a look.
func TestSingleEntryAheadIsWatched(t *testing.T) {
	r := newRow(t)
	a, b := r.alone(), r.second()
	waits := b.waits()
	require.False(t, a.out().Turn)
	b.granted(waits)
	for range 3 {
		next := r.second()
		waits = next.waits()
		v := b.out()
		require.False(t, v.Turn, "who joined since it is the head watches it")
		next.granted(waits)
		b = next
	}
	r.turns()

	// One that joined behind another, too, is told by that when it leaves, before or after the head does.
	c, d := r.second(), r.third()
	waits = d.waits()
	v := c.out()
	require.False(t, b.out().Turn)
	c.touch(v)
	d.granted(waits)
	e, f := r.second(), r.third()
	waits = f.waits()
	e.leave()
	r.turns(d)
	d.leave()
	f.granted(waits)
}

// TestNextThatIsOfAnotherProgramIsCompared: the list says that it is next, and it has gone.
func TestNextThatIsOfAnotherProgramIsCompared(t *testing.T) {
	r := newRow(t)
	x, b := r.alone(), r.joins()
	b.v.Turn = true // it waits for the turn, so that it has the list
	plain := r.put("694d8af1b3c2a017")
	x.leave()
	waits := b.waits()
	r.look()
	b.granted(waits)
	r.remove(plain)
	a, c := r.second(), r.third()
	waits = c.waits()
	a.leave()
	b.leave()
	c.granted(waits)
	r.turns(c)
}

// TestEntryOfAnotherProgramHasNoTurn: it would stay, and those behind it might believe it.
func TestEntryOfAnotherProgramHasNoTurn(t *testing.T) {
	r := newRow(t)
	plain := r.put("694d8af1b3c2a017")
	a, b := r.joins(), r.joins()
	require.False(t, a.v.Turn || b.v.Turn)
	a.leave()
	b.leave()
	r.look()
	r.turns()
	r.remove(plain)
}

// TestListsAreHandedOn: a release is one request, as long as the list of the one before lasts, and one that has gone is not told.
func TestListsAreHandedOn(t *testing.T) {
	r := newRow(t)
	f := new(faults)
	in := openSession(t, newClient(t, r.endpoint, f.dial()...))
	first, second := r.alone(), r.second()
	var all []*stander
	for range 40 {
		all = append(all, r.join(in))
	}
	first.leave()
	second.leave()
	looks := 0
	for i, p := range all {
		if i%7 == 5 {
			continue // it has left
		}
		p.granted(p.waits())
		if i%7 == 4 && i+1 < len(all) {
			all[i+1].leave()
		}
		before := f.calls(getRange)
		v := p.out()
		if v.Turn {
			looks++
		} else {
			require.Equal(t, before, f.calls(getRange))
		}
		p.touch(v)
	}
	require.Less(t, looks, 12)
	r.turns()
	require.Empty(t, keysOf(t, r.admin, r.queue))
}

// TestRefusedTurnDoesNotKeepTheEntry: where a turn may not be put the release succeeds without it.
func TestRefusedTurnDoesNotKeepTheEntry(t *testing.T) {
	for _, refusal := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace} {
		t.Run(refusal.Error(), func(t *testing.T) {
			r := newRow(t)
			f := new(faults)
			a, b := r.alone(), r.join(openSession(t, newClient(t, r.endpoint, f.dial()...)))
			c, d := r.third(), r.third()
			b.v.Turn = true
			a.leave()
			r.look()
			b.granted(b.waits()) // and knows the next one
			waits := c.waits()
			f.next(txn, refuse(refusal))
			v, found, err := b.Delete(t.Context(), b.v.Self)
			require.NoError(t, err)
			require.True(t, found)
			require.True(t, v.Turn)
			b.touch(v)
			c.granted(waits)
			c.leave()
			d.granted(d.waits())
		})
	}
}

// TestKeyWithALeaseThatIsNot: the name of a key of another program says that it knows turns, under a lease that does not exist.
func TestKeyWithALeaseThatIsNot(t *testing.T) {
	r := newRow(t)
	a, b := r.alone(), r.second()
	lie := r.put("m-t123.0000000001")
	a.leave()
	r.look()
	b.leave()
	r.look()
	r.turns()
	require.NoError(t, b.Renew(t.Context(), nil), "its session lives")
	r.remove(lie)
	r.alone().leave()
}

// TestBrokenWatchOnTurns: what came meanwhile is read.
func TestBrokenWatchOnTurns(t *testing.T) {
	r := newRow(t)
	a, b, c := r.alone(), r.second(), r.third()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		on := []driver.Target{{Entry: a.v.Self, What: driver.Turn}}
		_, _ = c.Watch(ctx, c.v.Self, on, cancel)
	})
	all.Wait()
	a.leave()
	b.leave()
	c.granted(c.waits())
}
