//go:build unix

package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// BenchmarkProcesses is how often processes lock and release one mutex with nothing in between, for two seconds. A hand-over
// is an acquisition after one of another process. least/most compares the processes.
func BenchmarkProcesses(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		for name, sync := range map[string]string{"normal": "", "full": "yes"} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					file := newFile(b)
					workers := make([]*process, n)
					for i := range workers {
						workers[i] = start(b, "work", file, syncVariable+"="+sync)
					}
					for _, w := range workers {
						w.says("locked")
					}
					b.StartTimer()
					began := time.Now()
					require.NoError(b, pause.For(b.Context(), 2*time.Second))
					b.StopTimer()
					for _, w := range workers {
						require.NoError(b, w.stdin.Close())
					}
					took := time.Since(began).Seconds()
					var all []int
					total, handOvers := 0, 0
					var used time.Duration
					for _, w := range workers {
						var turns, others, lost int
						_, err := fmt.Sscan(w.says("turns"), &turns, &others, &lost)
						require.NoError(b, err)
						w.ends()
						used += w.used()
						all = append(all, turns)
						total += turns
						handOvers += others
					}
					b.StartTimer()
					b.ReportMetric(float64(total)/took, "acq/s")
					b.ReportMetric(float64(handOvers)/took, "hand-overs/s")
					b.ReportMetric(float64(slices.Min(all))/float64(slices.Max(all)), "least/most")
					b.ReportMetric(float64(used.Microseconds())/float64(total), "cpu-µs/acq")
				}
			})
		}
	}
}

// BenchmarkAtRest is the processor time of a process that has a Store and does nothing, and of one that waits for a lock.
func BenchmarkAtRest(b *testing.B) {
	for _, role := range []string{"idle", "wait"} {
		b.Run(role, func(b *testing.B) {
			file := newFile(b)
			lease, err := farsync.NewMutex(newStore(b, file, nil), path).Lock(b.Context())
			require.NoError(b, err)
			for b.Loop() {
				var took [2]time.Duration
				for i, d := range []time.Duration{time.Second, 21 * time.Second} {
					p := start(b, role, file)
					p.says("open")
					require.NoError(b, pause.For(b.Context(), d))
					require.NoError(b, p.stdin.Close())
					p.ends()
					took[i] = p.used()
				}
				b.ReportMetric(float64((took[1]-took[0]).Microseconds())/20e6*100, "%cpu")
			}
			require.NoError(b, lease.Release())
		})
	}
}
