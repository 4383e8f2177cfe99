package docstest_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
)

// clientLines passes what etcd's client logs on to a slog.Logger, which adds the time and the level.
func clientLines(to *slog.Logger) *zap.Logger {
	lines := slog.NewLogLogger(to.Handler(), slog.LevelDebug).Writer()
	text := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "msg"})
	return zap.New(zapcore.NewCore(text, zapcore.AddSync(lines), zap.WarnLevel))
}

// A firstLine keeps what is written, and calls when the first line is there.
type firstLine struct {
	mu   sync.Mutex
	text strings.Builder
	call func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.call()
	return f.text.Write(p)
}

// TestLinesOfTheEtcdClientGoWhereThePageSays: docs/start/etcd.md has clientLines, and what such a line says.
func TestLinesOfTheEtcdClientGoWhereThePageSays(t *testing.T) {
	t.Parallel()
	page := document(t, "docs/start/etcd.md")
	source, err := os.ReadFile("etcdlines_test.go")
	require.NoError(t, err)
	_, function, found := strings.Cut(string(source), "\n\n// clientLines")
	require.True(t, found)
	function, _, found = strings.Cut(function, "\n}\n")
	require.True(t, found)
	require.Contains(t, page, "\n// clientLines"+function+"\n}\n")

	ctx, cancel := context.WithCancel(within(t, soon))
	defer cancel()
	kept := &firstLine{call: cancel}
	log := slog.New(slog.NewTextHandler(kept, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{locktest.Refusing(t)}, Logger: clientLines(log)})
	require.NoError(t, err)
	_, err = etcd.Open(ctx, client, &etcd.Options{Options: farsync.Options{}})
	require.Error(t, err)
	require.NoError(t, client.Close())
	kept.mu.Lock()
	defer kept.mu.Unlock()
	t.Log(kept.text.String())
	require.Contains(t, kept.text.String(), "level=DEBUG")
	require.Contains(t, kept.text.String(), "retrying of unary invoker failed")
}
