package etcdtest_test

import (
	"context"
	"reflect"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The calls that a Store makes for a lock.
const (
	txn         = "/etcdserverpb.KV/Txn"
	deleteRange = "/etcdserverpb.KV/DeleteRange"
	getRange    = "/etcdserverpb.KV/Range"
	timeToLive  = "/etcdserverpb.Lease/LeaseTimeToLive"
)

// faults loses calls of a client, as it is told. It sits below the client's own retries.
type faults struct {
	mu    sync.Mutex
	fates map[string][]fate // of the next calls of a method; those after them pass
	made  map[string]int
}

// A fate is what becomes of one call, which then fails. send has the server carry it out, with or without the caller
// living; the reply is for the fate alone.
type fate func(ctx context.Context, send func(context.Context) (reply any, err error)) error

// next sets the fates of the next calls of a method, and forgets those that it had.
func (f *faults) next(method string, fates ...fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fates == nil {
		f.fates = map[string][]fate{}
	}
	f.fates[method] = fates
}

// calls returns how many calls of a method have been made, the lost ones among them.
func (f *faults) calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made[method]
}

func (f *faults) dial() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.intercept)}
}

func (f *faults) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if fate := f.pop(method); fate != nil {
		return fate(ctx, func(ctx context.Context) (any, error) {
			lost := reflect.New(reflect.TypeOf(reply).Elem()).Interface()
			err := invoke(ctx, method, req, lost, cc, options...)
			return lost, err
		})
	}
	return invoke(ctx, method, req, reply, cc, options...)
}

func (f *faults) pop(method string) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made == nil {
		f.made = map[string]int{}
	}
	f.made[method]++
	if len(f.fates[method]) == 0 {
		return nil
	}
	next := f.fates[method][0]
	f.fates[method] = f.fates[method][1:]
	return next
}

// errBroken is what a client sees when its connection breaks: the call may have been carried out or not.
var errBroken = status.Error(codes.Unavailable, "the connection broke")

// loseRequest: the server never hears of the call.
func loseRequest(context.Context, func(context.Context) (any, error)) error { return errBroken }

// loseReply: the server has carried out the call when the client sees the connection break.
func loseReply(ctx context.Context, send func(context.Context) (any, error)) error {
	if _, err := send(ctx); err != nil {
		return err
	}
	return errBroken
}

// answer: the server has carried out the call, and the client is answered something else.
func answer(said error) fate {
	return func(ctx context.Context, send func(context.Context) (any, error)) error {
		if _, err := send(ctx); err != nil {
			return err
		}
		return said
	}
}

// refuse: the server answers that, and does nothing.
func refuse(said error) fate {
	return func(context.Context, func(context.Context) (any, error)) error { return said }
}

// before is f after which the caller gives up: cancel is called before the call fails.
func before(cancel context.CancelFunc, f fate) fate {
	return func(ctx context.Context, send func(context.Context) (any, error)) error {
		err := f(ctx, send)
		cancel()
		return err
	}
}

// delay: the client sees the connection break, but its request is under way and lands when the test says so.
func delay() (f fate, land func(context.Context) (reply any, err error)) {
	held := make(chan func(context.Context) (any, error), 1)
	f = func(ctx context.Context, send func(context.Context) (any, error)) error {
		held <- func(context.Context) (any, error) { return send(context.WithoutCancel(ctx)) }
		return errBroken
	}
	return f, func(ctx context.Context) (any, error) { return (<-held)(ctx) }
}
