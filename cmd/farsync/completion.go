package main

import (
	"github.com/spf13/cobra"
)

func (a *app) completionVerb() *cobra.Command {
	shells := map[string]func(*cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(a.stdout, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(a.stdout) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(a.stdout, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(a.stdout) },
	}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Write what a shell needs to complete farsync's arguments",
		Long:      "completion writes a script for a shell: source <(farsync completion bash). It completes the paths that are in use, too.",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			write, known := shells[arguments[0]]
			if !known {
				return usage("no completion for %s", arguments[0])
			}
			if err := write(cmd.Root()); err != nil {
				return &exit{codeCannotRun, err}
			}
			return nil
		},
	}
}
