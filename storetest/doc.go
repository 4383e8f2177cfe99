// Package storetest tests backends of farsync, and code that uses one.
//
// RunDriver holds a backend to the contract of package driver. Mem is a service in memory that keeps that contract, also
// in the bubbles of testing/synctest. Inject and Record wrap the driver of any backend: the one makes requests fail below
// the policy of a Store, the other writes down what was requested. RunStore holds that policy to its promises.
//
// docs/WRITING-A-STORE.md leads through the cases of RunDriver, in an order in which a new driver turns them green.
package storetest
