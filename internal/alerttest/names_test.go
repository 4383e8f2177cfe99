package alerttest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// goldenFiles are what package promfarsync exports, as its tests hold it to them.
var goldenFiles = []string{"../../promfarsync/testdata/exposition.txt", "../../promfarsync/testdata/queues.txt"}

// names are the labels of each series, by the name of the series, as Prometheus has it.
type names map[string][]string

// ofScrape are labels that Prometheus adds to all.
var ofScrape = []string{"job", "instance"}

// exported returns all that is exported. In the golden files a label without a value is there, too.
func exported(t *testing.T) names {
	t.Helper()
	all := names{}
	for _, file := range goldenFiles {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			series := line[:strings.LastIndex(line, "}")+1]
			e, err := parser.ParseExpr(series)
			require.NoError(t, err)
			selector := e.(*parser.VectorSelector)
			for _, m := range selector.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(all[selector.Name], m.Name) {
					all[selector.Name] = append(all[selector.Name], m.Name)
				}
			}
		}
	}
	require.Greater(t, len(all), 10)
	return all
}

// unknown returns the metrics and labels of an expression that are not there, those by which it groups and joins among them.
func (n names) unknown(e parser.Expr) (wrong []string) {
	var known []string // labels of what the expression is made of
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, ok := n[selector.Name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("metric %q", selector.Name))
		}
		labels = slices.Concat(labels, ofScrape)
		known = append(known, labels...)
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(labels, m.Name) {
				wrong = append(wrong, fmt.Sprintf("label %q of %s", m.Name, selector.Name))
			}
		}
		return nil
	})
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		var used []string
		switch node := node.(type) {
		case *parser.AggregateExpr:
			used = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				used = slices.Concat(node.VectorMatching.MatchingLabels, node.VectorMatching.Include)
			}
		}
		for _, label := range used {
			if !slices.Contains(known, label) {
				wrong = append(wrong, fmt.Sprintf("label %q in %s", label, node))
			}
		}
		return nil
	})
	return wrong
}

// TestUnknownNamesAreFound: a check that finds nothing may look at nothing.
func TestUnknownNamesAreFound(t *testing.T) {
	there := exported(t)
	for text, want := range map[string]string{
		`farsync_leases_hold > 0`:                                                            `metric "farsync_leases_hold"`,
		`farsync_leases_held{store="etcd"}`:                                                  `label "store" of farsync_leases_held`,
		`sum by (farsync_kindd) (farsync_leases_held)`:                                       `label "farsync_kindd" in sum by (farsync_kindd) (farsync_leases_held)`,
		`histogram_quantile(.5, rate(farsync_hold_duration_seconds_bucket{end="lost"}[5m]))`: `label "end" of farsync_hold_duration_seconds_bucket`,
		`farsync_leases_held and on (path) farsync_queue_entries`:                            `label "path" in farsync_leases_held and on (path) farsync_queue_entries`,
	} {
		e, err := parser.ParseExpr(text)
		require.NoError(t, err)
		require.Equal(t, []string{want}, there.unknown(e))
	}
}
