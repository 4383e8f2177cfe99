//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func serve(t *testing.T) (*number, *ledger) {
	l := newLedger()
	r, err := newResource(filepath.Join(t.TempDir(), "number"), true, l)
	require.NoError(t, err)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return &number{url: server.URL, who: "test"}, l
}

func TestReadFencesOffAnEarlierWriter(t *testing.T) {
	n, l := serve(t)
	_, err := n.read(t.Context(), 5)
	require.NoError(t, err)
	_, err = n.read(t.Context(), 7)
	require.NoError(t, err)
	require.ErrorIs(t, n.write(t.Context(), 5, 1), errLate, "7 has read what 5 would change")
	require.NoError(t, n.write(t.Context(), 7, 1))
	_, err = n.read(t.Context(), 6)
	require.ErrorIs(t, err, errLate)
	got, err := n.read(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, 1, got)
	refused, accepted := l.late()
	require.Len(t, refused, 2)
	require.Empty(t, accepted)
}

func TestRequestWithoutTokenIsRefused(t *testing.T) {
	n, l := serve(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, n.url, strings.NewReader("1"))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Empty(t, l.all())
}
