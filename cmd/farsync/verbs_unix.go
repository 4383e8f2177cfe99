//go:build unix

package main

import "github.com/spf13/cobra"

func (a *app) verbs() []*cobra.Command {
	return append([]*cobra.Command{a.runVerb(), a.electVerb(), a.holdVerb(), a.heldVerb()}, a.views()...)
}
