package alerttest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const (
	documents = "../../docs"
	rulesFile = documents + "/prometheus/farsync.rules.yml"
	testFile  = documents + "/prometheus/farsync.test.yml"
)

// rules returns those of the documents, which Prometheus would load.
func rules(t *testing.T) (list []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false)
	require.Empty(t, errs)
	for _, g := range groups.Groups {
		list = append(list, g.Rules...)
	}
	require.GreaterOrEqual(t, len(list), 5)
	return list
}

func TestRulesNameMetricsThatAreThere(t *testing.T) {
	there := exported(t)
	for _, r := range rules(t) {
		e, err := parser.ParseExpr(r.Expr)
		require.NoError(t, err)
		require.Empty(t, there.unknown(e), r.Alert)
	}
}

// TestRunbookKnowsEachAlert: what to do about it is in a row of a table.
func TestRunbookKnowsEachAlert(t *testing.T) {
	runbook, err := os.ReadFile(documents + "/RUNBOOK.md")
	require.NoError(t, err)
	seeing, err := os.ReadFile(documents + "/SEEING.md")
	require.NoError(t, err)
	require.Contains(t, string(runbook), "\n## Alerts\n", "the rules link to it")
	for _, r := range rules(t) {
		require.Contains(t, string(runbook), "\n| `"+r.Alert+"` | ")
		require.Contains(t, string(seeing), "\n| `"+r.Alert+"` | ")
		require.Contains(t, r.Annotations["runbook_url"], "/docs/RUNBOOK.md#alerts")
	}
}

// A scenario is a test of rules as promtool takes it, of what is used here.
type scenario struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []struct {
		At       model.Duration `yaml:"eval_time"`
		Name     string         `yaml:"alertname"`
		Expected []struct {
			Labels      map[string]string `yaml:"exp_labels"`
			Annotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// TestRulesFire plays docs/prometheus/farsync.test.yml, as promtool does.
func TestRulesFire(t *testing.T) {
	var file struct {
		Rules []string       `yaml:"rule_files"`
		Every model.Duration `yaml:"evaluation_interval"`
		Tests []scenario     `yaml:"tests"`
	}
	text, err := os.ReadFile(testFile)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	require.Equal(t, []string{filepath.Base(rulesFile)}, file.Rules)

	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	fired := map[string]bool{}
	for _, s := range file.Tests {
		t.Run(s.Name, func(t *testing.T) {
			data := s.load(t)
			for _, want := range s.Alerts {
				alerts := firing(t, engine, data, want.Name, time.Duration(want.At), time.Duration(file.Every))
				require.Len(t, alerts, len(want.Expected), "%s at %v: %v", want.Name, want.At, alerts)
				for i, a := range alerts {
					require.Equal(t, want.Expected[i].Labels, a.labels)
					require.Equal(t, want.Expected[i].Annotations, a.annotations)
					fired[want.Name] = true
				}
			}
		})
	}
	for _, r := range rules(t) {
		require.True(t, fired[r.Alert], "%s is never seen to fire", r.Alert)
	}
}

// load reads the series of a scenario.
func (s scenario) load(t *testing.T) memory {
	t.Helper()
	there := exported(t)
	var data memory
	for _, line := range s.Series {
		of, values, err := parser.ParseSeriesDesc(line.Series + " " + line.Values)
		require.NoError(t, err)
		selector, err := parser.ParseExpr(line.Series)
		require.NoError(t, err)
		require.Empty(t, there.unknown(selector), s.Name)
		data = append(data, newSeries(of, values, time.Duration(s.Interval)))
	}
	return data
}

type alert struct{ labels, annotations map[string]string }

// firing returns the alerts of a rule that fire at a time, if it is evaluated so often from 0 on.
func firing(t *testing.T, engine *promql.Engine, data memory, name string, at, every time.Duration) (list []alert) {
	t.Helper()
	rule := ruleOf(t, name)
	since := map[string]time.Duration{}
	for now := time.Duration(0); now <= at; now += every {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, rule.Expr, time.UnixMilli(now.Milliseconds()))
		require.NoError(t, err)
		result, err := query.Exec(t.Context()).Vector()
		require.NoError(t, err)
		active := map[string]time.Duration{}
		list = nil
		for _, sample := range result {
			key := sample.Metric.String()
			first, ok := since[key]
			if !ok {
				first = now
			}
			if active[key] = first; now-first >= time.Duration(rule.For) {
				list = append(list, of(t, rule, sample))
			}
		}
		query.Close()
		since = active
	}
	return list
}

func ruleOf(t *testing.T, name string) rulefmt.Rule {
	t.Helper()
	for _, r := range rules(t) {
		if r.Alert == name {
			return r
		}
	}
	require.Fail(t, "no such rule", name)
	panic("not reached")
}

// of returns the alert that a sample makes.
func of(t *testing.T, rule rulefmt.Rule, sample promql.Sample) alert {
	t.Helper()
	a := alert{labels.NewBuilder(sample.Metric).Del(labels.MetricName).Labels().Map(), map[string]string{}}
	maps.Copy(a.labels, rule.Labels)
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	for name, text := range rule.Annotations {
		defs := strings.Join([]string{"{{$labels := .Labels}}", "{{$value := .Value}}"}, "")
		none := func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }
		out, err := template.NewTemplateExpander(t.Context(), defs+text, name, data, model.Time(timestamp.FromTime(time.UnixMilli(0))),
			none, &url.URL{}, []string{"missingkey=error"}).Expand()
		require.NoError(t, err, fmt.Sprint(rule.Alert, " ", name))
		a.annotations[name] = out
	}
	return a
}
