package alerttest

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory is all series that there are, as what Prometheus' engine asks for them.
type memory []storage.Series

// newSeries returns a series with a value at each interval from 0 on, but for those that are left out.
func newSeries(of labels.Labels, values []parser.SequenceValue, interval time.Duration) storage.Series {
	var list []chunks.Sample
	for i, v := range values {
		if !v.Omitted {
			list = append(list, point{int64(i) * interval.Milliseconds(), v.Value})
		}
	}
	return storage.NewListSeries(of, list)
}

// Querier is of storage.Queryable.
func (m memory) Querier(int64, int64) (storage.Querier, error) { return m, nil }

// Select is of storage.Querier.
func (m memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &found{at: -1}
	for _, s := range m {
		fits := true
		for _, matcher := range matchers {
			fits = fits && matcher.Matches(s.Labels().Get(matcher.Name))
		}
		if fits {
			found.list = append(found.list, s)
		}
	}
	return found
}

// LabelValues is of storage.Querier.
func (memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames is of storage.Querier.
func (memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close is of storage.Querier.
func (memory) Close() error { return nil }

// found are the series that were asked for.
type found struct {
	list []storage.Series
	at   int
}

// Next is of storage.SeriesSet, and so are the others.
func (f *found) Next() bool {
	f.at++
	return f.at < len(f.list)
}

func (f *found) At() storage.Series              { return f.list[f.at] }
func (*found) Err() error                        { return nil }
func (*found) Warnings() annotations.Annotations { return nil }

// A point is a value of a series.
type point struct {
	at    int64
	value float64
}

// T is of chunks.Sample, and so are the others.
func (p point) T() int64                    { return p.at }
func (p point) F() float64                  { return p.value }
func (point) H() *histogram.Histogram       { return nil }
func (point) FH() *histogram.FloatHistogram { return nil }
func (point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample         { return p }
