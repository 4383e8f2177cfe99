package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReport reads what go test -json wrote of tests that pass, fail, are not judged, do not compile and hang.
func TestReport(t *testing.T) {
	for file, row := range map[string]struct {
		code          int
		summary       string
		prints, never []string
	}{
		"fails": {
			1, "1 passed, 3 failed, 1 skipped\n" +
				"  TestFails: Not equal: expected: 1\n" +
				"  TestSlow/part (not judged): Not equal: expected: 1\n" +
				"  TestPart/part: z_test.go:7: the lease ended\n",
			[]string{"pass TestPasses", "skip TestSkips", "fail TestFails", "numbers"}, []string{"fine"},
		},
		"slow": {
			3, "1 passed, 1 failed, 1 skipped\n  TestSlow/part (not judged): Not equal: expected: 1\n",
			[]string{"not judged: a timer came 1s late"}, nil,
		},
		"build": {
			1, "0 passed, 0 failed, 0 skipped\n" +
				"  package github.com/farsync/farsync/internal/suite/zz.test: internal/suite/zz/z_test.go:8:6: expected 'IDENT', found 'EOF'\n",
			[]string{"expected 'IDENT'"}, nil,
		},
		"hangs": {
			1, "0 passed, 0 failed, 0 skipped\n  package github.com/farsync/farsync/internal/suite/zz: in TestHangs: panic: test timed out after 1s\n",
			[]string{"goroutine 7"}, nil,
		},
	} {
		t.Run(file, func(t *testing.T) {
			events, err := os.Open("testdata/" + file + ".json")
			require.NoError(t, err)
			defer events.Close()
			var printed bytes.Buffer
			r := newReport(&printed)
			require.NoError(t, r.read(events))
			require.Equal(t, row.code, r.code())
			require.Equal(t, row.summary, r.summary())
			for _, says := range row.prints {
				require.Contains(t, printed.String(), says)
			}
			for _, says := range row.never {
				require.NotContains(t, printed.String(), says)
			}
		})
	}
}
