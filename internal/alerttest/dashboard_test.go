package alerttest

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

const dashboardFile = documents + "/grafana/farsync.json"

// A dashboard is what is looked at of one of Grafana's.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ H, W, X, Y int }
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// variables are those of Grafana itself, with what may stand there.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")

var (
	variable = regexp.MustCompile(`\$(\w+)`)
	labeled  = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	shown    = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// TestDashboardNamesMetricsThatAreThere: a panel on a metric or a label that is misspelt is empty for ever.
func TestDashboardNamesMetricsThatAreThere(t *testing.T) {
	there, d := exported(t), readDashboard(t)
	var known []string // variables
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
		if v.Definition != "" {
			of := labeled.FindStringSubmatch(v.Definition)
			require.NotNil(t, of, v.Definition)
			require.Contains(t, slices.Concat(there[of[1]], ofScrape), of[2])
		}
	}
	seen := map[string]bool{}
	for _, p := range d.Panels {
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			text := variables.Replace(target.Expr)
			for _, v := range variable.FindAllStringSubmatch(text, -1) {
				require.Contains(t, known, v[1], p.Title)
			}
			e, err := parser.ParseExpr(text)
			require.NoError(t, err, p.Title)
			require.Empty(t, there.unknown(e), p.Title)
			for _, label := range shown.FindAllStringSubmatch(target.LegendFormat, -1) {
				require.Contains(t, grouping(e), label[1], p.Title)
			}
			parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
				if s, ok := node.(*parser.VectorSelector); ok {
					seen[base(s.Name)] = true
				}
				return nil
			})
		}
	}
	for name := range there {
		require.True(t, seen[base(name)], "%s is on no panel", name)
	}
}

// base returns the name of a metric without what a histogram adds.
func base(series string) string {
	for _, of := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, of); ok && name != "farsync_session" {
			return name
		}
	}
	return series
}

// grouping returns the labels by which an expression groups.
func grouping(e parser.Expr) (by []string) {
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			by = append(by, a.Grouping...)
		}
		return nil
	})
	return by
}

// TestPanelsDoNotOverlap: each has an ID and a place of its own.
func TestPanelsDoNotOverlap(t *testing.T) {
	type cell struct{ x, y int }
	taken, ids := map[cell]string{}, map[int]bool{}
	for _, p := range readDashboard(t).Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[cell{x, y}], p.Title)
				taken[cell{x, y}] = p.Title
			}
		}
	}
}
