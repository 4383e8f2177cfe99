// Package storetest is for those who write a backend of farsync, or test code that uses one.
//
// Run holds a backend to the contract of recipe.Store. Mem is a service and client in memory that keeps that contract,
// also in the bubbles of testing/synctest, and can be made to fail. Inject and Record wrap any Store: the one makes
// calls fail, the other writes down what was called.
package storetest
