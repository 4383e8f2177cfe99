//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/farsync/farsync"
)

// tokenHeader carries the fencing token of a request.
const tokenHeader = "Fencing-Token"

// errLate: the server has seen a higher token than the request's, and did nothing.
var errLate = errors.New("too late")

// A number is the worker's side of the resource: a number at a URL that is read and written.
type number struct {
	url string
	who string // for the server's statistics
}

func (n *number) read(ctx context.Context, token farsync.Token) (int, error) {
	text, err := n.ask(ctx, http.MethodGet, token, "")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (n *number) write(ctx context.Context, token farsync.Token, value int) error {
	_, err := n.ask(ctx, http.MethodPut, token, strconv.Itoa(value))
	return err
}

func (n *number) ask(ctx context.Context, method string, token farsync.Token, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, n.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set(tokenHeader, token.String())
	request.Header.Set("User-Agent", n.who)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(answer))
	switch response.StatusCode {
	case http.StatusOK:
		return text, nil
	case http.StatusConflict:
		return "", fmt.Errorf("%w: %s", errLate, text)
	default:
		return "", fmt.Errorf("%s %s: %s: %s", method, n.url, response.Status, text)
	}
}
