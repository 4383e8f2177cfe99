//go:build !unix

package main

import "github.com/spf13/cobra"

// verbs leaves out the verbs that run programs: there are no process groups here that could be ended.
func (a *app) verbs() []*cobra.Command { return a.views() }
