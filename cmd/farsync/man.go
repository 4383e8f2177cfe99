package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIRECTORY]",
		Short: "Write or install the manual page",
		Long: `man writes the manual page to standard output. With a DIRECTORY it installs it there, as man1/farsync.1, where man finds it if
the DIRECTORY is one of MANPATH: /usr/local/share/man, for example.`,
		Annotations: map[string]string{storeless: "yes"},
		Args:        takes(0, 1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			page := manual(cmd.Root())
			if len(arguments) == 0 {
				_, err := fmt.Fprint(a.stdout, page)
				return unwritten(err)
			}
			dir := filepath.Join(arguments[0], "man1")
			err := os.MkdirAll(dir, 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "farsync.1"), []byte(page), 0o644) //nolint:gosec // for all to read
			}
			return unwritten(err)
		},
	}
}

// limits is what farsync run cannot promise.
const limits = `When a lock is lost, COMMAND and what it has started are killed before the service can give the lock to another client. This cannot
be kept where guard and supervisor are killed in the same moment, and COMMAND has started others; where both are stopped for longer than
the TTL; for processes of another user, set-user-ID programs among them; for one that waits in the kernel for a disk; on a machine
that gives farsync no processor time for longer than a twentieth of the TTL; and, on systems other than Linux, for what leaves the
process group. A lock that is broken, or whose entry a person removes, may be held by another for the moment until COMMAND is killed.

The remedy is FARSYNC_TOKEN, a number that only rises from one holder of a path to the next: give it with what COMMAND writes, and
have the receiver refuse lower ones.`

// manual returns the manual page in the language of man(7).
func manual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH FARSYNC 1 \"\" farsync\n.SH NAME\nfarsync \\- %s\n", escaped(strings.ToLower(root.Short[:1])+root.Short[1:]))
	b.WriteString(".SH SYNOPSIS\n.B farsync\n[\\fIflags\\fR] \\fIVERB\\fR ...\n")
	section(&b, "DESCRIPTION", root.Long)
	b.WriteString(".SH OPTIONS\nOf all verbs:\n")
	options(&b, root.PersistentFlags())
	b.WriteString(".SH VERBS\n")
	for _, verb := range root.Commands() {
		if verb.Hidden {
			continue
		}
		fmt.Fprintf(&b, ".SS %s\n", escaped(strings.ReplaceAll(verb.Use, "[flags] ", "[FLAG...] ")))
		paragraphs(&b, cmp.Or(verb.Long, verb.Short+"."))
		options(&b, verb.LocalNonPersistentFlags())
		if verb.Example != "" {
			verbatim(&b, verb.Example)
		}
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, m := range meanings {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", escaped(m.codes), escaped(m.words))
	}
	section(&b, "LIMITS", limits)
	b.WriteString(".SH SEE ALSO\n.BR flock (1)\n")
	return b.String()
}

func section(b *strings.Builder, title, text string) {
	fmt.Fprintf(b, ".SH %s\n", title)
	paragraphs(b, text)
}

// paragraphs writes text whose paragraphs are parted by empty lines. A paragraph with lines that are indented stays as
// it is.
func paragraphs(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			verbatim(b, paragraph)
			continue
		}
		fmt.Fprintf(b, ".PP\n%s\n", escaped(paragraph))
	}
}

func verbatim(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", escaped(strings.TrimRight(text, "\n")))
}

// options writes the flags of a verb.
func options(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		kind, words := pflag.UnquoteUsage(f)
		names := "--" + f.Name
		if f.Shorthand != "" {
			names = "-" + f.Shorthand + ", " + names
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", escaped(names))
		if kind != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", escaped(kind))
		}
		fmt.Fprintf(b, "\n%s\n", escaped(words))
	})
}

// escaped returns text as roff shows it.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "–", `\-`, "≤", `\(<=`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
