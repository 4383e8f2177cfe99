package zk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigestIsNeverPrinted(t *testing.T) {
	const secret = "s3cr3t"
	digest := Digest{User: "somebody", Password: secret}
	options := Options{Digest: &digest, PlaintextDigest: true}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, value := range []any{digest, &digest, options, &options, []Digest{digest}, struct{ D Digest }{digest}} {
			fmt.Fprintf(&out, verb, value)
		}
	}
	for _, log := range []*slog.Logger{
		slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil)),
	} {
		log.Info("open", "digest", digest, "pointer", &digest, "options", options, "pointer", &options)
	}
	text, err := json.Marshal(struct{ Digest *Digest }{&digest})
	require.NoError(t, err)
	out.Write(text)
	require.NotContains(t, out.String(), secret)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", secret))
	require.Contains(t, out.String(), "somebody")
}
