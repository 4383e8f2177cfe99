// Package mysqltest holds the tests of package mysql that need a server.
package mysqltest
