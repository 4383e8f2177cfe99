// Package redistest has the tests of package redis that need a server. No program imports it: go mod tidy in a program
// counts the tests of the packages that it imports, and would download etcd's server, which embedtest starts too.
package redistest
