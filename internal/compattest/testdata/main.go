// This program is built with an earlier farsync, in the tree of which the test puts it and the package that it imports.
package main

import (
	"fmt"
	"os"

	"github.com/farsync/farsync/internal/compattest"
)

func main() {
	if err := compattest.Play(os.Getenv(compattest.Variable), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
