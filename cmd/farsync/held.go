//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/internal/legible"
)

func (a *app) heldVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "held",
		Short: "Tell, inside of COMMAND, whether its lock is held",
		Long: `held is for COMMAND, before a step that cannot be undone. It exits with 0 while the lock is held, and writes the tokens and
for how many milliseconds it is held unless it is renewed; it exits with 79 when the lock is lost. It reads what
farsync run keeps in memory that both share, and asks nothing of the service.

A program that closes the descriptors it has inherited, as Python's subprocess does, has none of it: then held exits with
64.`,
		Annotations: map[string]string{storeless: "yes"},
		Args:        takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			text, set := os.LookupEnv(guard.Variable)
			if !set {
				return usage("%s is not set: call held in what farsync run has started", guard.Variable)
			}
			fd, err := strconv.Atoi(text)
			if err != nil {
				return usage("%s is %s, and no number: leave it as farsync run has set it", guard.Variable, legible.Text(text))
			}
			word, err := guard.OpenWord(fd)
			if err != nil {
				return usage("%s is %d: %w", guard.Variable, fd, err)
			}
			left, held := word.Left()
			if !held || left <= 0 {
				return &exit{codeLost, errors.New("the lock is lost")}
			}
			text = os.Getenv("FARSYNC_TOKEN")
			tokens := []farsync.Token{}
			for word := range strings.FieldsSeq(text) {
				var token farsync.Token
				if token.UnmarshalText([]byte(word)) != nil {
					return usage("FARSYNC_TOKEN has %s in it, and no number: leave it as farsync run has set it", legible.Text(word))
				}
				tokens = append(tokens, token)
			}
			if !a.json {
				_, err := fmt.Fprintln(a.stdout, text, left.Milliseconds())
				return unwritten(err)
			}
			return a.print(heldJSON{1, tokens, left.Seconds()})
		},
	}
}

// heldJSON is what held --json writes.
type heldJSON struct {
	Schema int             `json:"schema"`
	Token  []farsync.Token `json:"token"`
	Left   float64         `json:"left"` // seconds
}
