// Command list reads the test files below the folders that it is given, and prints which tests say that they are for make long: the
// area, the package's folder, the test, and "whole", or "part" where make test does something of it too.
//
//	list [-area etcd] [-run] [folder ...]
//
// With -run it prints a package a line and the pattern of go test -run for its tests.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/farsync/farsync/internal/suite/marks"
)

func main() {
	area := flag.String("area", "", "of this area alone")
	run := flag.Bool("run", false, "print packages, and patterns for go test -run")
	flag.Parse()
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"."}
	}
	found, err := marks.Read(folders...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
	if *area != "" {
		found = marks.Of(found, *area)
	}
	if !*run {
		for _, m := range found {
			fmt.Fprintln(os.Stdout, m)
		}
		return
	}
	for _, p := range marks.Patterns(found) {
		fmt.Fprintf(os.Stdout, "%s\t%s\n", p.Folder, p.Run)
	}
}
