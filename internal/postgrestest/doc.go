// Package postgrestest holds the tests of package postgres that need a server.
package postgrestest
