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
// The file later.txt names the packages and documents that were above the bound when the check was made. A name leaves
// the file when its text is mended. No name comes in.
//
// The check leaves out comments of tests, code in comments and documents, and the decisions in docs/adr, for nobody
// rewrites a decision.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

//go:embed later.txt
var later string

// names is how many names later.txt has. It is lowered with each name that leaves.
const names = 3

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
	if said := check(texts, strings.Fields(later), names); len(said) > 0 {
		fail(strings.Join(said, "\n"))
	}
}

func fail(said string) {
	fmt.Fprintln(os.Stderr, said)
	os.Exit(1)
}

// check returns what is wrong with the texts, and with the list of names that are not checked yet.
func check(texts []*text, later []string, names int) (said []string) {
	waits := map[string]bool{}
	for _, name := range later {
		waits[name] = true
	}
	for _, t := range texts {
		findings := t.findings()
		if waits[t.name] && len(findings) == 0 {
			said = append(said, t.name+" is plain now: take it out of internal/plain/later.txt")
		}
		if !waits[t.name] {
			said = append(said, findings...)
		}
		delete(waits, t.name)
	}
	for _, name := range later {
		if waits[name] {
			said = append(said, name+" is no package and no document: take it out of internal/plain/later.txt")
		}
	}
	if len(later) > names {
		said = append(said, fmt.Sprintf("internal/plain/later.txt has %d names, and may have %d: mend the text in place of adding its name", len(later), names))
	}
	if len(later) < names {
		said = append(said, fmt.Sprintf("internal/plain/later.txt has %d names: lower the constant names in internal/plain, which is %d", len(later), names))
	}
	return said
}
