// Package guard splits a run of the command into two processes that watch each other, so that no way of ending one of
// them leaves COMMAND without a lock.
//
//	farsync run            the guard: the process that the shell has started. No network. Passes signals on.
//	 └─ farsync run        the supervisor, in a group of its own: the Store, the lease
//	     └─ COMMAND        in a group of its own
//
// The supervisor ends COMMAND when the lease ends. The guard does when the supervisor cannot: when it has died, and at
// the deadline of the lease when it has been stopped. The supervisor ends COMMAND when the guard has died, and gives
// the lock back. Both adopt orphans, so what COMMAND has started comes to the process of the two that is left.
//
// Where the guard has other children, left to it by a shell that has become this program, a keeper stands between guard
// and supervisor. It adopts orphans of the supervisor, so that the guard can tell them from orphans of the other
// children, and does nothing else.
//
// The guard may be stopped, by Ctrl-Z as by SIGSTOP: the supervisor goes on, and so does the lease.
package guard
