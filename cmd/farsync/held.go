//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync/cmd/farsync/internal/guard"
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
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fd, err := strconv.Atoi(os.Getenv(guard.Variable))
			if err != nil {
				return usage("%s is not set: held is for what farsync run has started", guard.Variable)
			}
			word, err := guard.OpenWord(fd)
			if err != nil {
				return usage("%w", err)
			}
			left, held := word.Left()
			if !held || left <= 0 {
				return &exit{codeLost, errors.New("the lock is lost")}
			}
			tokens := strings.Fields(os.Getenv("FARSYNC_TOKEN"))
			if !a.json {
				fmt.Fprintln(a.stdout, strings.Join(tokens, " "), left.Milliseconds())
				return nil
			}
			numbers := make([]json.Number, len(tokens))
			for i, t := range tokens {
				numbers[i] = json.Number(t)
			}
			return a.print(heldJSON{1, numbers, left.Seconds()})
		},
	}
}

// heldJSON is what held --json writes.
type heldJSON struct {
	Schema int           `json:"schema"`
	Token  []json.Number `json:"token"`
	Left   float64       `json:"left"` // seconds
}
