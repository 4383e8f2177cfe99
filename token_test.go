package farsync_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// Two tokens that a float of 64 bits, which has 53 for the digits, takes for one.
const (
	large  = farsync.Token(1<<62 | 256)
	larger = large + 1
)

// TestParserOfFloatsTellsTokensApart: JavaScript and jq read the numbers of JSON as this parser does.
func TestParserOfFloatsTellsTokensApart(t *testing.T) {
	type row struct {
		Token  farsync.Token            `json:"token"`
		Before []farsync.Token          `json:"before"`
		Of     map[farsync.Token]string `json:"of"`
	}
	var read [2]any
	for i, token := range []farsync.Token{large, larger} {
		text, err := json.Marshal(row{token, []farsync.Token{token}, map[farsync.Token]string{token: "a"}})
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"token":"%d","before":["%[1]d"],"of":{"%[1]d":"a"}}`, token), string(text))
		require.NoError(t, json.Unmarshal(text, &read[i]))
		var again row
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, row{token, []farsync.Token{token}, map[farsync.Token]string{token: "a"}}, again)
	}
	for _, field := range []string{"token", "before"} {
		require.NotEqual(t, read[0].(map[string]any)[field], read[1].(map[string]any)[field])
	}
	var token farsync.Token
	require.Error(t, json.Unmarshal([]byte(fmt.Sprintf("%d", large)), &token), "a number may have been rounded")
	require.Zero(t, token)
}

func TestTokenIsItsDigits(t *testing.T) {
	const digits = "4611686018427388160"
	require.Equal(t, digits, large.String())
	for _, verb := range []string{"%v", "%s", "%d"} {
		require.Equal(t, digits, fmt.Sprintf(verb, large))
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("written", "token", large)
	require.Contains(t, log.String(), `"token":"`+digits+`"`)

	var given farsync.Token
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.TextVar(&given, "token", farsync.Token(0), "")
	require.NoError(t, flags.Parse([]string{"-token", digits}))
	require.Equal(t, large, given)

	var stream bytes.Buffer
	require.NoError(t, gob.NewEncoder(&stream).Encode(large))
	var received farsync.Token
	require.NoError(t, gob.NewDecoder(&stream).Decode(&received))
	require.Equal(t, large, received)
}

func FuzzTokenText(f *testing.F) {
	for _, seed := range []string{"0", "1", "-1", "256", "4611686018427388160", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"", " 1", "1\n", "+1", "-0", "01", "1.0", "1e3", "0x10", "1_000", "١", "null"} {
		f.Add(seed, int64(256))
	}
	f.Add("1", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, text string, n int64) {
		written, err := farsync.Token(n).MarshalText()
		require.NoError(t, err)
		binary, err := farsync.Token(n).MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), string(written))
		require.Equal(t, written, binary)
		var read, also farsync.Token
		require.NoError(t, read.UnmarshalText(written))
		require.NoError(t, also.UnmarshalBinary(binary))
		require.Equal(t, []farsync.Token{farsync.Token(n), farsync.Token(n)}, []farsync.Token{read, also})

		err = read.UnmarshalText([]byte(text))
		require.Equal(t, err == nil, also.UnmarshalBinary([]byte(text)) == nil)
		if err == nil {
			require.Equal(t, text, read.String(), "one token has one text")
			return
		}
		require.Equal(t, farsync.Token(n), read, "it is as it was")
		require.Less(t, len(err.Error()), 400)
	})
}
