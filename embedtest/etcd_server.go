//go:build unix

package embedtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// An EtcdServer is one etcd member, over all its runs.
type EtcdServer struct {
	server
}

// healthy returns nil once the member serves a linearizable read, which takes a leader and a majority.
func (s *EtcdServer) healthy(ctx context.Context) error {
	var health struct{ Health, Reason string }
	if err := s.ask(ctx, http.MethodGet, "/health", &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("unhealthy: %s", health.Reason)
	}
	return nil
}

// An etcdStatus is what a member believes of its ensemble.
type etcdStatus struct {
	member, leader uint64 // leader is 0 when there is none
	term           uint64
}

func (s *EtcdServer) status(ctx context.Context) (etcdStatus, error) {
	var reply struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
		Term   string `json:"raftTerm"`
	}
	if err := s.ask(ctx, http.MethodPost, "/v3/maintenance/status", &reply); err != nil {
		return etcdStatus{}, err
	}
	// The JSON leaves out what is 0.
	number := func(text string) uint64 {
		n, _ := strconv.ParseUint(text, 10, 64)
		return n
	}
	return etcdStatus{member: number(reply.Header.Member), leader: number(reply.Leader), term: number(reply.Term)}, nil
}

// ask uses the HTTP side of the client port: a gRPC client would wait a second after the first refused connection.
func (s *EtcdServer) ask(ctx context.Context, method, path string, reply any) error {
	request, err := http.NewRequestWithContext(ctx, method, s.Endpoint()+path, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // nothing of it outlives the call
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(reply)
}
