// Package etcdtest has the tests of package etcd that need a server.
//
// They are not in package etcd because go mod tidy in a program counts the tests of the packages that it imports: it would
// download etcd's server for them. No program imports this package. Tests that need no server are next to what they test.
package etcdtest
