package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/farsync/farsync/internal/legible"
)

// near is how many letters may be wrong in a word that is guessed.
const near = 2

// otherNames are the names of flags and verbs in other programs, flock before all, and what they are called here.
var otherNames = map[string]string{
	"timeout": "wait", "nb": "nonblock", "no-wait": "nonblock", "url": "store", "server": "store", "endpoints": "store", "force": "yes",
	"ls": "who", "list": "who", "ps": "who", "show": "who", "status": "who", "lock": "run", "exec": "run", "unlock": "break", "kill": "break",
	"rm": "break", "release": "ask", "top": "watch", "monitor": "watch", "web": "serve", "ui": "serve", "check": "doctor", "migrate": "schema",
}

// guess returns the name that a word was meant to be, or "".
func guess(word string, names []string) string {
	best, least := "", near+1
	for _, name := range names {
		if d := distance(word, name); d < least && d < len(word) {
			best, least = name, d
		}
	}
	if best != "" {
		return best
	}
	if other := otherNames[word]; slices.Contains(names, other) {
		return other
	}
	for _, name := range names {
		if len(word) > 1 && strings.HasPrefix(name, word) {
			return name
		}
	}
	return ""
}

// distance is how many letters are to be put in, left out or replaced.
func distance(a, b string) int {
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		corner := last[0]
		last[0]++
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = last[j+1]
			last[j+1] = min(replaced, last[j]+1, corner+1)
		}
	}
	return last[len(b)]
}

// takes refuses another number of arguments, and shows how the verb is written.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, arguments []string) error {
		switch {
		case len(arguments) < least:
			return usage("an argument is missing: write %s", written(cmd))
		case len(arguments) > most && most == 0:
			return usage("%s takes no argument: leave out %s", cmd.Name(), legible.Text(arguments[0]))
		case len(arguments) > most:
			return usage("%s is one argument too many: write %s", legible.Text(arguments[most]), written(cmd))
		default:
			return nil
		}
	}
}

// written is how a verb is written.
func written(cmd *cobra.Command) string {
	return "farsync " + strings.ReplaceAll(cmd.Use, "[flags] ", "")
}

// noVerb is the error of a word in the place of a verb.
func noVerb(root *cobra.Command, word string) error {
	switch meant := guess(word, verbNames(root)); {
	case strings.HasPrefix(word, "/"):
		return usage("%s stands in the place of a verb: write farsync run %[1]s -- COMMAND, or farsync who %[1]s", legible.Text(word))
	case meant != "":
		return usage("there is no verb %s: did you mean farsync %s?", legible.Text(word), meant)
	default:
		return usage("there is no verb %s: farsync --help lists the verbs", legible.Text(word))
	}
}

func verbNames(root *cobra.Command) (list []string) {
	for _, verb := range root.Commands() {
		if !verb.Hidden {
			list = append(list, verb.Name())
		}
	}
	return list
}

// noFlag is the error of flags that cannot be parsed.
func noFlag(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return usage("%s", unknownFlag(cmd, missing))
	}
	if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage("--%s needs a value behind it: write --%[1]s %s", bare.GetFlag().Name, bare.GetFlag().Value.Type())
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, cause := wrong.GetFlag(), wrong.Unwrap()
		if flag.Value.Type() == "bool" {
			cause = fmt.Errorf("it takes no value: write --%s alone", flag.Name)
		}
		return usage("--%s %s: %w", flag.Name, legible.Text(wrong.GetValue()), cause)
	}
	return usage("%w: farsync --help shows how flags are written", err)
}

func unknownFlag(cmd *cobra.Command, missing *pflag.NotExistError) string {
	who, name := cmd.Name(), missing.GetSpecifiedName()
	if missing.GetSpecifiedShortnames() != "" {
		return fmt.Sprintf("%s has no flag -%s%s", who, legible.Text(name), instead(cmd))
	}
	var own []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { own = append(own, f.Name) })
	if meant := guess(name, own); meant != "" {
		return fmt.Sprintf("%s has no flag --%s: did you mean --%s?", who, legible.Text(name), meant)
	}
	for _, verb := range cmd.Root().Commands() {
		if verb.LocalNonPersistentFlags().Lookup(name) != nil && verb != cmd {
			return fmt.Sprintf("%s has no flag --%s, which is one of farsync %s%s", who, name, verb.Name(), instead(cmd))
		}
	}
	return fmt.Sprintf("%s has no flag --%s%s", who, legible.Text(name), instead(cmd))
}

// instead says where the flags are listed, and where the flags of a COMMAND stand.
func instead(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ": farsync --help lists the flags, and those of a verb stand behind the verb"
	}
	text := ": farsync " + cmd.Name() + " --help lists its flags"
	if strings.Contains(cmd.Use, "COMMAND") {
		text += ", and COMMAND stands with its own behind --"
	}
	return text
}
