package sqlite

import "github.com/farsync/farsync"

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	farsync.Options

	// Sync makes every change reach the disk before it counts (synchronous FULL). Without it a crash of the machine may
	// undo the last changes. That gives no lock to two holders, for no holder survives the crash. It can undo a guarded
	// transaction that had committed, together with all that came after it.
	Sync bool
	// Linger keeps the locks of a process that has died until its session runs out, as on a remote service. Without it
	// they are free at once. Set it in programs whose child processes go on under a lock.
	Linger bool
}
