package location

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Variable is the environment variable that names the store.
const Variable = "FARSYNC_STORE"

// ErrNone means that neither the caller nor the environment names a store.
var ErrNone = errors.New("which store? Give --store URL or set " + Variable + ", for example " + Variable +
	"=etcd://HOST:2379; it is " + Forms)

// Find returns the Location that is given, or else the Location in FARSYNC_STORE, or else the Location that etcdctl
// would use by its ETCDCTL_ variables. From says which. The error wraps ErrNone if there is none of them: a lock on a
// service that was not meant is no lock, so there is no default.
//
// A relative file that is given is one below the directory of the caller, who has written both, and the Location has
// the path that is the same elsewhere. A variable is inherited: by cron from the home of a user, by COMMAND from
// wherever it has gone. A relative file in it would be another lock in each directory, and is refused.
func Find(given string, getenv func(string) string) (l *Location, from string, err error) {
	if given != "" {
		if l, err = Parse(given); err == nil {
			err = l.absolute()
		}
		return l, "--store", err
	}
	if text := getenv(Variable); text != "" {
		if l, err = Parse(text); err == nil && l.File != "" && !filepath.IsAbs(l.File) {
			err = errors.New("sqlite: the file is relative, and another one in another directory: write sqlite:/DIRECTORY/FILE")
		}
		if err != nil {
			return nil, Variable, fmt.Errorf("%s: %w", Variable, err)
		}
		return l, Variable, nil
	}
	if getenv("ETCDCTL_ENDPOINTS") != "" {
		l, err = fromEtcdctl(getenv)
		return l, "ETCDCTL_ENDPOINTS", err
	}
	return nil, "", ErrNone
}

// fromEtcdctl reads the variables as etcdctl does, which lets blanks stand around an endpoint.
func fromEtcdctl(getenv func(string) string) (*Location, error) {
	for _, name := range []string{"ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY", "ETCDCTL_USER"} {
		if err := checkText(getenv(name)); err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
	}
	l := &Location{Scheme: "etcd", CACert: getenv("ETCDCTL_CACERT"), Cert: getenv("ETCDCTL_CERT"), Key: getenv("ETCDCTL_KEY")}
	l.TLS = l.CACert != "" || l.Cert != ""
	endpoints := strings.Split(getenv("ETCDCTL_ENDPOINTS"), ",")
	for i, endpoint := range endpoints {
		host, secure := strings.CutPrefix(strings.TrimSpace(endpoint), "https://")
		l.TLS = l.TLS || secure
		address, err := addressOf(strings.TrimSuffix(strings.TrimPrefix(host, "http://"), "/"), "2379")
		if err != nil {
			return nil, fmt.Errorf("ETCDCTL_ENDPOINTS: host %d of %d %w", i+1, len(endpoints), err)
		}
		l.Hosts = append(l.Hosts, address)
	}
	user, password, both := strings.Cut(getenv("ETCDCTL_USER"), ":")
	if l.User, l.Password = user, password; !both {
		l.Password = getenv("ETCDCTL_PASSWORD")
	}
	if text := getenv("ETCDCTL_DIAL_TIMEOUT"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, errors.New("ETCDCTL_DIAL_TIMEOUT is not a time: write one such as 5s")
		}
		l.DialTimeout = d
	}
	if l.inTheClear() {
		return nil, errors.New("ETCDCTL_USER: the password would be sent in the clear, to whoever answers: write https:// before the endpoints, " +
			"or set FARSYNC_STORE=etcd://USER@HOST?plaintext=1&password-file=FILE if that is meant")
	}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("ETCDCTL_ variables: %w", err)
	}
	return l, nil
}
