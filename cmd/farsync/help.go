package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how many columns of a terminal a help may take.
const helpWidth = 80

// help writes what a verb does, its flags, and the exit codes that it has.
func (a *app) help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	reflow(&b, about, "")
	if cmd.HasParent() {
		fmt.Fprintf(&b, "\nUsage:\n  farsync %s\n", cmd.Use)
	} else {
		b.WriteString("\nUsage:\n  farsync VERB [flags] …\n\nVerbs:\n")
		verbs(&b, cmd)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	flags(&b, "Flags", cmd.LocalNonPersistentFlags())
	flags(&b, "Flags of all verbs", cmd.Root().PersistentFlags())
	b.WriteString("\nExit codes:\n")
	for _, m := range meaningsOf(cmd) {
		hang(&b, fmt.Sprintf("  %-9s  ", m.codes), m.words)
	}
	if cmd.HasParent() && cmd.Annotations[storeless] == "" {
		b.WriteString("\nfarsync --help tells how the store is given.\n")
	}
	if _, err := io.WriteString(a.stdout, b.String()); err != nil {
		a.unwritten = err
	}
}

// short is what farsync says of itself where no verb is given.
func short(root *cobra.Command) string {
	var b strings.Builder
	reflow(&b, "farsync runs programs under locks that hold across machines. A verb is missing: write farsync VERB, for example\n\n"+
		"  farsync run --store sqlite:locks.db /cron/backup -- backup.sh\n\nThe verbs are", "")
	b.WriteString("\n")
	verbs(&b, root)
	b.WriteString("\n")
	hang(&b, "", "farsync --help tells how the store is given, and farsync VERB --help has the flags.")
	return b.String()
}

func verbs(b *strings.Builder, root *cobra.Command) {
	for _, verb := range root.Commands() {
		if !verb.Hidden {
			hang(b, fmt.Sprintf("  %-10s  ", verb.Name()), verb.Short)
		}
	}
}

func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if text := set.FlagUsagesWrapped(helpWidth); text != "" {
		fmt.Fprintf(b, "\n%s:\n%s", title, text)
	}
}

// reflow writes paragraphs, which empty lines part, in lines of their own length. A paragraph that is indented stays as
// it is.
func reflow(b *strings.Builder, text, indent string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		if strings.HasPrefix(paragraph, "  ") {
			b.WriteString(strings.TrimRight(paragraph, "\n") + "\n")
			continue
		}
		hang(b, indent, paragraph)
	}
}

// hang writes words behind a head, in lines that begin where the words do.
func hang(b *strings.Builder, head, text string) {
	width := utf8.RuneCountInString(head)
	line := head
	at, empty := width, true
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case empty:
		case at+1+n > helpWidth:
			b.WriteString(line + "\n")
			line, at = strings.Repeat(" ", width), width
		default:
			line += " "
			at++
		}
		line, at, empty = line+word, at+n, false
	}
	b.WriteString(line + "\n")
}

// helpVerb is what other programs have for --help.
func (a *app) helpVerb() *cobra.Command {
	return &cobra.Command{
		Use:         "help [VERB]",
		Short:       "Show the help of a verb",
		Annotations: map[string]string{storeless: "yes"},
		Args:        takes(0, 1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			about := cmd.Root()
			if len(arguments) == 1 {
				verb, rest, err := about.Find(arguments)
				if err != nil || len(rest) > 0 || verb == about {
					return noVerb(about, arguments[0])
				}
				about = verb
			}
			a.help(about, nil)
			return nil
		},
	}
}
