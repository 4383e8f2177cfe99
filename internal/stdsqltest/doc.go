// Package stdsqltest holds the tests of package stdsql, which need a database: a program that uses MySQL is not to download SQLite for them.
package stdsqltest
