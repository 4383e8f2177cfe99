//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/farsync/farsync"
)

// A resource serves the number in its file over HTTP: GET /number, PUT /number. In earnest it would be a database, an
// object store, a device.
//
// It serves one request at a time, but ties none to another: between a worker's GET and its PUT there may be requests
// of others, and a PUT is not compared with what was read. To keep workers apart is the lock's business. The resource
// does one thing about a worker that is late: it remembers the highest token it has seen, and refuses lower ones.
type resource struct {
	file   string
	fenced bool // false: accept every token, for -no-fence
	ledger *ledger

	mu   sync.Mutex
	mark farsync.Token // the highest token seen
}

// newResource makes the file, with a zero in it.
func newResource(file string, fenced bool, l *ledger) (*resource, error) {
	r := &resource{file: file, fenced: fenced, ledger: l}
	return r, r.store(0)
}

func (r *resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var token farsync.Token
	if err := token.UnmarshalText([]byte(request.Header.Get(tokenHeader))); err != nil {
		http.Error(w, "header "+tokenHeader+": "+err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 64))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := access{who: request.UserAgent(), token: token, write: request.Method == http.MethodPut}
	if a.write {
		if a.value, err = strconv.Atoi(string(body)); err != nil {
			http.Error(w, "not a number: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admit(a.token) {
		a.refused = true
		r.ledger.add(a)
		http.Error(w, fmt.Sprintf("token %d is refused: token %d was here before", a.token, r.mark), http.StatusConflict)
		return
	}
	if a.write {
		err = r.store(a.value)
	} else {
		a.value, err = r.load()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.ledger.add(a)
	fmt.Fprintln(w, a.value)
}

// admit is the fence.
//
// A read raises the mark as a write does. If only writes did, a late write could come between the next holder's read
// and its write, still pass, and be overwritten: its add would be lost.
func (r *resource) admit(token farsync.Token) bool {
	if r.fenced && token < r.mark {
		return false
	}
	r.mark = max(r.mark, token)
	return true
}

func (r *resource) load() (int, error) {
	text, err := os.ReadFile(r.file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (r *resource) store(value int) error {
	return os.WriteFile(r.file, []byte(strconv.Itoa(value)+"\n"), 0o600)
}
