package locktest

import (
	"context"

	"github.com/farsync/farsync"
)

// A kind is one way to hold a path.
type kind struct {
	name   string
	family int
	lock   func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error)
	// try is lock without a wait; nil if there is no such call.
	try func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error)
	// shared is true if two of them hold at once.
	shared bool
}

// kinds are all there are, and with them every row of the table of Curator's recipes in docs/coming-from-curator.md.
var kinds = []kind{
	{
		name: "Mutex", family: 1,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).Lock
		},
		try: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).TryLock
		},
	},
	{
		name: "ReentrantMutex", family: 1,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewReentrantMutex(store, path).Lock
		},
		try: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewReentrantMutex(store, path).TryLock
		},
	},
	{
		name: "MultiMutex", family: 1,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return func(ctx context.Context) (*farsync.Lease, error) {
				multi, err := farsync.NewMultiMutex(farsync.NewMutex(store, path)).Lock(ctx)
				if err != nil {
					return nil, err
				}
				return nil, multi.Release() // what is of interest is that it was got, or not
			}
		},
	},
	{
		name: "RWMutex for writing", family: 2,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewRWMutex(store, path).Lock
		},
		try: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewRWMutex(store, path).TryLock
		},
	},
	{
		name: "RWMutex for reading", family: 2, shared: true,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewRWMutex(store, path).RLock
		},
		try: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return farsync.NewRWMutex(store, path).TryRLock
		},
	},
	{
		name: "Semaphore", family: 3, shared: true,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return units(farsync.NewSemaphore(store, path, 2), 1)
		},
		try: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return func(ctx context.Context) (*farsync.Lease, error) {
				return farsync.NewSemaphore(store, path, 2).TryAcquire(ctx, 1)
			}
		},
	},
	{
		name: "Election", family: 4,
		lock: func(store *farsync.Store, path string) func(context.Context) (*farsync.Lease, error) {
			return campaign(farsync.NewElection(store, path), "leader")
		},
	},
}
