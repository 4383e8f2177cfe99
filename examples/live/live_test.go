//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/examples/internal/program"
	"github.com/farsync/farsync/examples/internal/programtest"
	"github.com/farsync/farsync/internal/suite"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestShow(t *testing.T) {
	suite.Long(t, suite.Command, "12 s of a show, with a TTL of 2 s")
	t.Parallel()
	status, out, errs := programtest.Run(t, "-for", "12s", "-patience", "4s")
	require.Zero(t, status, "%s%s", out, errs)
	require.Empty(t, errs)
	require.Equal(t, 10, programtest.Count(t, out, "processes"))
	require.Positive(t, programtest.Count(t, out, "locks acquired"))
	require.Contains(t, out, "/debug/farsync/")
	require.Contains(t, out, "That was the page.")
}

func TestNoProcessIsLeft(t *testing.T) {
	suite.Long(t, suite.Command, "kills the program")
	programtest.NothingIsLeft(t, "processes begin")
}

func TestFlags(t *testing.T) {
	programtest.Flag(t, "-help", program.AllRight, "-patience")
	programtest.Flag(t, "-for -1s", program.Misused, "-for -1s: 0 or more")
	programtest.Flag(t, "-patience 0s", program.Misused, "-patience 0s: more than 0")
	programtest.Flag(t, "-store redis", program.Misused, `-store "redis": etcd, zk or sqlite`)
	programtest.Flag(t, "more", program.Misused, `"more"`)
	programtest.Flag(t, "worker", program.Misused, "started by live")
	programtest.Flag(t, "-store etcd -endpoints 127.0.0.1:1", program.Failed, "no etcd at 127.0.0.1:1")
}
