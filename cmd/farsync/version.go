package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "Show the version",
		Annotations: map[string]string{storeless: "yes"},
		Args:        takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			version := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			if a.json {
				return a.print(versionJSON{1, version, runtime.Version(), runtime.GOOS, runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.stdout, "farsync", version, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
			return unwritten(err)
		},
	}
}

// versionJSON is what version --json writes.
type versionJSON struct {
	Schema  int    `json:"schema"`
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}
