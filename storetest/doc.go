// Package storetest is for those who write a backend of farsync, or test code that uses one.
//
// RunDriver holds a backend to the contract of package driver. Mem is a service in memory that keeps that contract, also
// in the bubbles of testing/synctest. Inject and Record wrap the driver of any backend: the one makes requests fail below
// the policy of package recipe, the other writes down what was requested. RunStore holds that policy to its promises.
package storetest
