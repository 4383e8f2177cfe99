package electiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// What a process of its own needs to know, in its environment.
const (
	pathVariable     = "FARSYNC_ELECTION_PATH"
	nameVariable     = "FARSYNC_ELECTION_NAME"
	resourceVariable = "FARSYNC_ELECTION_RESOURCE"
)

// IsProcess reports whether this process is to Play.
func IsProcess() bool { return os.Getenv(pathVariable) != "" }

// Play is what the process of a Cluster's Command does: it stands for election on a Store of its own and leads, until
// its standard input ends.
func Play(store *farsync.Store) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	name, resource := os.Getenv(nameVariable), os.Getenv(resourceVariable)
	lead := farsync.NewElection(store, os.Getenv(pathVariable))
	err := lead.Lead(ctx, name, func(term context.Context, lease *farsync.Lease) error {
		believes := false // the lease was held after the last write was refused
		err := work(ctx, term, func() (bool, error) {
			query := url.Values{"name": {name}, "token": {lease.Token().String()}, "believes": {strconv.FormatBool(believes)}}
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, resource+"?"+query.Encode(), http.NoBody)
			if err != nil {
				return false, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, err
			}
			admitted := response.StatusCode == http.StatusOK
			believes = !admitted && term.Err() == nil
			return admitted, response.Body.Close()
		})
		if errors.Is(err, errRefused) {
			return nil // the leadership is lost, and it stands again
		}
		return err
	})
	return ended(name, err)
}

// ServeHTTP is the resource for processes. Whether they believe to lead they say with the write that follows a refusal:
// a process may be stopped between looking at its lease and writing, but not be refused before another leads.
func (r *resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var token farsync.Token
	if err := token.UnmarshalText([]byte(request.FormValue("token"))); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	believes := request.FormValue("believes") == "true"
	if !r.write(request.FormValue("name"), token, func() bool { return believes }) {
		w.WriteHeader(http.StatusConflict)
	}
}

// A process is a candidate that can be killed in earnest.
type process struct {
	name    string
	command *exec.Cmd
	stdin   io.Closer
	output  bytes.Buffer
	ended   chan error
}

// startProcess starts a candidate, ended by t.
func (s *scene) startProcess(name, path, resource string) (*process, error) {
	p := &process{name: name, command: s.Command(), ended: make(chan error, 1)}
	p.command.Env = append(p.command.Environ(),
		pathVariable+"="+path, nameVariable+"="+name, resourceVariable+"="+resource)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	var err error
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	over := make(chan struct{})
	go func() { // joined by the cleanup
		defer close(over)
		p.ended <- p.command.Wait()
	}()
	s.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-over
	})
	return p, nil
}

// finish ends the process in good order.
func (p *process) finish() error {
	_ = p.stdin.Close()
	if err := <-p.ended; err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, err, p.output.Bytes())
	}
	return nil
}

// deadProcesses: the same as kills with real processes and a real SIGKILL; and in each election one leader is stopped
// instead, until another leads, and then goes on where it was.
func (s *scene) deadProcesses() {
	const elections = 4
	observers := s.Open(s, s.TTL)
	tolls := make([]toll, elections)
	var group errgroup.Group
	for i := range elections {
		group.Go(func() (err error) {
			tolls[i], err = s.killProcesses(s.rounds(4), observers)
			return err
		})
	}
	require.NoError(s, group.Wait())
	v := s.report(tolls)
	require.GreaterOrEqual(s, v.losses, 20)
	require.Empty(s, v.doubled, "they believed that they lead when others did")
}

func (s *scene) killProcesses(rounds int, from Client) (t toll, err error) {
	path, r := newPath(), newResource()
	server := httptest.NewServer(r)
	defer server.Close()
	observer := s.observe(from, path)
	processes := map[string]*process{}
	stand := func(number int) error {
		p, err := s.startProcess(fmt.Sprintf("process %d", number), path, server.URL)
		if err == nil {
			processes[p.name] = p
		}
		return err
	}
	for i := range 3 {
		if err := stand(i); err != nil {
			return t, err
		}
	}
	leader, err := r.after(s.ctx, 0)
	if err != nil {
		return t, err
	}
	for round := range rounds + 1 {
		p, at, stopped := processes[leader.name], time.Now(), round == rounds/2
		if stopped {
			err = stop(p.command.Process)
		} else {
			err = errors.Join(p.command.Process.Kill(), stand(3+round))
			delete(processes, p.name)
		}
		if err != nil {
			return t, err
		}
		next, err := r.after(s.ctx, leader.token)
		if err != nil {
			return t, err
		}
		t.losses++
		t.vacancies = append(t.vacancies, next.first.Sub(at))
		if stopped {
			if err := resume(p.command.Process); err != nil {
				return t, err
			}
			if err := r.refusedSome(s.ctx); err != nil {
				return t, err
			}
		}
		leader = next
	}
	if err := observer.seesLeader(s.ctx, farsync.NewElection(from.Store, path)); err != nil {
		return t, err
	}
	for _, p := range processes {
		if err := p.finish(); err != nil {
			return t, err
		}
	}
	t.verdict = r.verdict()
	return t, observer.seesNobody(s.ctx)
}

// refusedSome waits until a late write has come and was refused. It polls: the stopped process may have been anywhere.
func (r *resource) refusedSome(ctx context.Context) error {
	for r.verdict().stale == 0 {
		if err := pause.For(ctx, writeEvery); err != nil {
			return fmt.Errorf("nothing late has come: %w", err)
		}
	}
	return nil
}
