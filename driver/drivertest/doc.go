// Package drivertest is for authors of stores: it holds a backend of farsync to the contract of package driver.
//
// RunDriver does that, with a subtest for each case, and a backend of another module runs it as each backend of this module does.
// docs/WRITING-A-STORE.md leads through the cases, in an order in which a new driver turns them green. CheckTrace looks at the
// order in which a Store over the driver tells its Trace what it does.
//
// RunStore holds the Store itself to its promises, over the service in memory of package farsynctest. It needs no backend,
// and is for changes to the Store.
//
// The package uses testify, so that only the tests of a backend should import it. A program that tests its own code needs
// package farsynctest alone.
package drivertest
