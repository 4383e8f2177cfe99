// The command vet is go vet, which checks the types of all that is imported from its source instead of compiling it. For a system that
// nothing is compiled for yet, it takes a tenth of the time.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
