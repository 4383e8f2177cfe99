package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPackagesOfTheComparison counts the packages that a program builds for one import, without those of the standard
// library, at the versions of this module. docs/COMPARISON.md says about how many there are: a package more or less is
// no news.
func TestPackagesOfTheComparison(t *testing.T) {
	page, err := os.ReadFile("../docs/COMPARISON.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| Packages in a build.*$`).FindString(string(page))
	for said, path := range map[string]string{
		"`farsync/redis`": "github.com/farsync/farsync/redis",
		"`farsync/etcd`":  "github.com/farsync/farsync/etcd",
		"`farsync/zk`":    "github.com/farsync/farsync/zk",
		"redislock":       "github.com/bsm/redislock",
		"redsync":         "github.com/go-redsync/redsync/v4/redis/goredis/v9",
		"rueidislock":     "github.com/redis/rueidis/rueidislock",
		"`concurrency`":   "go.etcd.io/etcd/client/v3/concurrency",
		"go-zookeeper":    "github.com/go-zookeeper/zk",
	} {
		figure := regexp.MustCompile(regexp.QuoteMeta(said) + ` (\d+)`).FindStringSubmatch(row)
		require.NotNil(t, figure, "docs/COMPARISON.md does not say how many packages %s builds", said)
		want, err := strconv.Atoi(figure[1])
		require.NoError(t, err)
		list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", path).Output()
		require.NoError(t, err)
		require.InDelta(t, want, len(strings.Fields(string(list))), 3, "packages of %s", path)
	}
}
