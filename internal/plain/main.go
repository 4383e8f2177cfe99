// Command plain counts pronouns that stand for a noun of another sentence, in the comments of each package and in each
// document. Such pronouns are "the one", "one that", "those of", "that of", "of which" and "what waits". It also counts
// sentences whose subject is such a pronoun: What, Whoever, None, One, Those. A reader has to guess the noun.
//
//	plain           fails where there are too many
//	plain -table    prints the counts of all packages and documents
//
// The bound is 1.5 in 1,000 words, for pronouns and for sentences apart. A single find is no finding. The packages
// sync, context, database/sql and net/http of Go 1.26 have 0.2 at most by this count.
//
// There is no list of exceptions: a text that goes above the bound is mended.
//
// The check leaves out comments of tests, code in comments and documents, and the decisions in docs/adr, for nobody
// rewrites a decision.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	table := flag.Bool("table", false, "print the counts of all packages and documents")
	flag.Parse()
	texts, err := read(".")
	if err != nil {
		fail(err.Error())
	}
	if *table {
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(out, "words\tpronouns\tin 1,000\tsentences\tin 1,000\t\t")
		for _, t := range texts {
			fmt.Fprintf(out, "%d\t%d\t%.1f\t%d\t%.1f\t\t%s\n", t.words, len(t.pronouns), t.rate(t.pronouns), len(t.sentences), t.rate(t.sentences), t.name)
		}
		_ = out.Flush()
		return
	}
	if said := check(texts); len(said) > 0 {
		fail(strings.Join(said, "\n"))
	}
}

func fail(said string) {
	fmt.Fprintln(os.Stderr, said)
	os.Exit(1)
}

// check returns what is wrong with the texts.
func check(texts []*text) (said []string) {
	for _, t := range texts {
		said = append(said, t.findings()...)
	}
	return said
}
