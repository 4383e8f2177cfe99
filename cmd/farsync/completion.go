package main

import (
	"github.com/spf13/cobra"

	"github.com/farsync/farsync/internal/legible"
)

func (a *app) completionVerb() *cobra.Command {
	shells := map[string]func(*cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(a.stdout, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(a.stdout) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(a.stdout, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(a.stdout) },
	}
	return &cobra.Command{
		Use:         "completion bash|zsh|fish|powershell",
		Short:       "Write what a shell needs to complete farsync's arguments",
		Long:        "completion writes a script for a shell: source <(farsync completion bash). It completes the paths that are in use, too.",
		Annotations: map[string]string{storeless: "yes"},
		Args:        takes(1, 1),
		ValidArgs:   []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			write, known := shells[arguments[0]]
			if !known {
				return usage("%s is a shell for which there is no completion: write bash, zsh, fish or powershell", legible.Text(arguments[0]))
			}
			return unwritten(write(cmd.Root()))
		},
	}
}
