package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A frail is a database whose connections have broken, until it is reset.
type frail struct {
	line

	err       error // of a statement on a broken connection
	broken    bool
	sent      int
	afterSend func()
}

func (f *frail) Reset() { f.broken = false }

func (f *frail) Write(_ context.Context, _ func(Rows) error, statement string, _ ...any) error {
	f.sent++
	if f.afterSend != nil {
		f.afterSend()
	}
	if f.broken {
		return f.err
	}
	return nil
}

// TestEndGoesByANewConnection where its own has broken, and is sent twice only if that can bring more than the first.
func TestEndGoesByANewConnection(t *testing.T) {
	end := func(db *frail, ctx context.Context) error { return NewSession(db, time.Minute).End(ctx) }
	broken := errors.New("connection reset by peer")

	db := &frail{broken: true, err: broken}
	require.NoError(t, end(db, t.Context()))
	require.Equal(t, 2, db.sent)

	refused := &Error{errors.New("permission denied"), driver.Refused}
	db = &frail{broken: true, err: refused}
	require.ErrorIs(t, end(db, t.Context()), refused)
	require.Equal(t, 1, db.sent)

	ctx, giveUp := context.WithCancel(t.Context())
	db = &frail{broken: true, err: broken, afterSend: giveUp}
	require.ErrorIs(t, end(db, ctx), broken)
	require.Equal(t, 1, db.sent, "nobody waits for it")

	db = new(frail)
	require.NoError(t, end(db, t.Context()))
	require.Equal(t, 1, db.sent)
}
