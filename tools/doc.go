// Package tools has no code. Its module pins the versions of the tools that the Makefile runs, and has the command vet.
//
// With this package go build ./... builds several packages, and writes nothing. Of a command alone it writes the program, and
// would write the command vet over its own folder.
package tools
