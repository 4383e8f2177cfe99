package location

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

func TestURLs(t *testing.T) {
	for _, row := range []struct {
		text string
		want Location
		name string // what it prints as, where that is not the text
	}{
		{text: "etcd://h1:2379", want: Location{Scheme: "etcd", Hosts: []string{"h1:2379"}}},
		{
			text: "etcd://h1,h2:2380,[::1],[fe80::1]:99/locks/team/?ttl=7s",
			want: Location{Scheme: "etcd", Hosts: []string{"h1:2379", "h2:2380", "[::1]:2379", "[fe80::1]:99"}, Prefix: "/locks/team", TTL: 7 * time.Second},
			name: "etcd://h1:2379,h2:2380,[::1]:2379,[fe80::1]:99/locks/team",
		},
		{
			text: "etcd://me:p%40ss%2Fw@h/?cacert=ca.pem&cert=c.pem&key=k.pem&dial-timeout=2s",
			want: Location{
				Scheme: "etcd", Hosts: []string{"h:2379"}, User: "me", Password: "p@ss/w", TLS: true, CACert: "ca.pem", Cert: "c.pem",
				Key: "k.pem", DialTimeout: 2 * time.Second,
			},
			name: "etcd://h:2379",
		},
		{
			text: "zk://me@h1,h2/p?password-file=f&tls=1&namespace=/curator",
			want: Location{Scheme: "zk", Hosts: []string{"h1:2181", "h2:2181"}, Prefix: "/p", User: "me", PasswordFile: "f", TLS: true, Namespace: "/curator"},
			name: "zk://h1:2181,h2:2181/p",
		},
		{
			text: "redis://:secret@h1,h2/p?master=m&db=2&replicas=1&fresh=true&namespace=n&plaintext=1",
			want: Location{
				Scheme: "redis", Hosts: []string{"h1:6379", "h2:6379"}, Prefix: "/p", Password: "secret", Master: "m", Database: 2,
				Replicas: 1, Fresh: true, Namespace: "n", Plaintext: true,
			},
			name: "redis://h1:6379,h2:6379/p",
		},
		{text: "mysql://h/app", want: Location{Scheme: "mysql", Hosts: []string{"h:3306"}, Schema: "app"}, name: "mysql://h:3306/app"},
		{
			text: "mysql://me:secret@h:1/app?prefix=/p&tls=1&connections=3",
			want: Location{Scheme: "mysql", Hosts: []string{"h:1"}, User: "me", Password: "secret", Schema: "app", Prefix: "/p", TLS: true, Most: 3},
			name: "mysql://h:1/app",
		},
		{
			text: "postgres://u:secret@h/app?prefix=/p&migrate=1&cacert=ca.pem&connections=2",
			want: Location{
				Scheme: "postgres", Hosts: []string{"h:5432"}, User: "u", Password: "secret", Schema: "app", Prefix: "/p", Migrate: true,
				TLS: true, CACert: "ca.pem", Most: 2,
			},
			name: "postgres://h:5432/app",
		},
		{
			text: "postgres://u@h/app?schema=team_1",
			want: Location{Scheme: "postgres", Hosts: []string{"h:5432"}, User: "u", Schema: "app", Tables: "team_1"},
			name: "postgres://h:5432/app",
		},
		{text: "sqlite:locks.db", want: Location{Scheme: "sqlite", File: "locks.db"}},
		{
			text: "sqlite:/a%20b/x%3F.db?sync=1&prefix=/p&ttl=2s",
			want: Location{Scheme: "sqlite", File: "/a b/x?.db", Sync: true, Prefix: "/p", TTL: 2 * time.Second},
			name: "sqlite:/a%20b/x%3F.db",
		},
	} {
		got, err := Parse(row.text)
		require.NoError(t, err, row.text)
		require.Equal(t, row.want, *got)
		if row.name == "" {
			row.name = row.text
		}
		require.Equal(t, row.name, got.String())
	}
}

// Each of them has the word secret where a password may stand by mistake.
func TestErrorsShowNoPassword(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "a store is etcd://",
		"h:2379":                            "a store is etcd://",
		"secret@h":                          "a store is etcd://",
		"oracle://u:secret@h":               "a store is etcd://",
		"postgres://u:secret@h":             "the name of the database",
		"postgres://u:secret@h/a/b":         "the name of the database",
		"postgres://secret/a":               "no user",
		"postgres://u@h/a?schema=secret/x":  "option schema is no name of one",
		"postgres://u@h/a?schema=":          "option schema is empty",
		"mysql://u@h/a?schema=secret":       "schema is not known there",
		"postgres://u:secret@h1,h2/a":       "there is one primary",
		"etcd:h":                            "write //",
		"mysql://secret":                    "the name of the database",
		"mysql://h/secret/secret":           "the name of the database",
		"mysql://h1,h2/secret":              "there is one primary",
		"etcd://":                           "host 1 of 1 is empty",
		"etcd://h1,":                        "host 2 of 2 is empty",
		"etcd://u:sec/ret@h":                "port that is not a number",
		"etcd://u:secret#x@h:0":             "port that is not a number",
		"etcd://u:%secret@h":                "% that begins no escape",
		"etcd://secret secret":              "white space in its middle",
		"etcd://secret(secret":              "is not HOST or HOST:PORT",
		"etcd://[secret]":                   "IPv6",
		"etcd://[::1]secret":                "port",
		"etcd://u:secret@h?secret=1":        "an option is not known",
		"etcd://u:secret@h?namespace=x":     "namespace is not known there; there are ttl",
		"etcd://u:secret@h?tls=secret":      "option tls is neither 1 nor 0",
		"etcd://u:secret@h?ttl=secret":      "option ttl is not a time",
		"etcd://u:secret@h?tls=1&tls=1":     "option tls comes 2 times",
		"etcd://u:secret@h?cert=secret":     "only one",
		"etcd://u:secret@h?cert=":           "option cert is empty",
		"etcd://u:secret@h?ttl=%secret":     "not name=value",
		"etcd://u:secret@h/secret//":        "the prefix is not a path",
		"etcd://u:secret@h?password-file=f": "a password and a password-file",
		"etcd://:secret@h":                  "without a user",
		"etcd://secret@h":                   "a user without a password",
		"zk://u:secret@h":                   "in the clear",
		"etcd://u:secret@h":                 "set tls=1, or plaintext=1 if that is meant",
		"postgres://u:secret@h/app":         "in the clear",
		"redis://:secret@h/0":               "write ?db=",
		"redis://:secret@h1,h2":             "Sentinels",
		"redis://:secret@h?db=secret":       "option db is not a number",
		"mysql://h/a?connections=secret":    "connections is not a number from 2",
		"postgres://u@h/a?connections=1":    "connections is not a number from 2",
		"redis://:secret@h?connections=2":   "connections is not known there",
		"sqlite:":                           "no file",
		"sqlite:%secret":                    "% that begins no escape",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret", text)
	}
}

// TestPasswordsWithoutTLS: a password is sent to whoever answers at an address, so it needs TLS, or a word that it does not;
// on every store alike.
func TestPasswordsWithoutTLS(t *testing.T) {
	path := map[string]string{"postgres": "/app", "mysql": "/app"}
	for name := range schemes {
		if name == "sqlite" {
			continue
		}
		for _, password := range []string{"u:secret@HOST", "u@HOST?password-file=f"} {
			for host, fits := range map[string]bool{
				"h": false, "10.0.0.1": false, "[2001:db8::1]": false, "0.0.0.0": false, "localhost.example.com": false, "127.0.0.1.example.com": false,
				"localhost": true, "LOCALHOST:99": true, "127.0.0.1": true, "127.1.2.3:99": true, "[::1]": true,
			} {
				user, option, _ := strings.Cut(password, "?")
				url := name + "://" + strings.Replace(user, "HOST", host, 1) + path[name] + "?" + option
				_, err := Parse(strings.TrimSuffix(url, "?"))
				if fits {
					require.NoError(t, err, url)
				} else {
					require.ErrorContains(t, err, name+": the password would be sent in the clear, to whoever answers: set tls=1, or plaintext=1 if that is meant", url)
				}
				if !strings.HasSuffix(url, "?") {
					url += "&"
				}
				for _, says := range []string{"tls=1", "cacert=/f", "plaintext=1", "plaintext"} {
					_, err := Parse(url + says)
					require.NoError(t, err, url+says)
				}
				for _, says := range []string{"tls=0", "plaintext=0"} {
					_, err := Parse(url + says)
					require.Equal(t, fits, err == nil, url+says)
				}
			}
		}
	}
	for _, text := range []string{"redis://:secret@127.0.0.1?master=m", "redis://:secret@127.0.0.1,127.0.0.2?master=m", "etcd://u:secret@127.0.0.1,h"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "in the clear", text)
	}
	for endpoints, fits := range map[string]bool{"h": false, "http://h": false, "https://h": true, "http://127.0.0.1:2379,localhost": true, "127.0.0.1,h": false} {
		environ := map[string]string{"ETCDCTL_ENDPOINTS": endpoints, "ETCDCTL_USER": "u", "ETCDCTL_PASSWORD": "secret"}
		_, _, err := Find("", func(name string) string { return environ[name] })
		if fits {
			require.NoError(t, err, endpoints)
		} else {
			require.ErrorContains(t, err, "write https:// before the endpoints, or set FARSYNC_STORE=etcd://USER@HOST?plaintext=1&password-file=FILE", endpoints)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("etcd://u:pa%40ss@h1:2379,[::1]/p?ttl=10s&tls=1")
	f.Add("zk://h1,h2/p?namespace=/x")
	f.Add("redis://:x@h?db=1")
	f.Add("postgres://u:x@h/app?prefix=/p&connections=2")
	f.Add("sqlite:/a%20b?sync=1")
	f.Add("mysql://h/app?cacert=/a%20b+c%2Bd.pem")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		if l.Scheme == "postgres" || l.Master != "" && len(l.Hosts) > 1 {
			return // the user is needed and not printed, and that there is a master is one of the options
		}
		again, err := Parse(l.String())
		require.NoError(t, err, "%q prints as %q", text, l)
		require.Equal(t, l.String(), again.String())
		require.Equal(t, l.Hosts, again.Hosts)
		require.Equal(t, l.File, again.File)
		require.Empty(t, again.Password)

		// With all but the password it is the same, where it needs none.
		want := *l
		want.Password = ""
		if want.check() != nil {
			return
		}
		again, err = Parse(l.Portable())
		require.NoError(t, err, "%q is passed on as %q", text, l.Portable())
		require.Equal(t, want, *again)
	})
}

func TestFind(t *testing.T) {
	environ := map[string]string{}
	getenv := func(name string) string { return environ[name] }
	_, _, err := Find("", getenv)
	require.ErrorIs(t, err, ErrNone)

	environ = map[string]string{
		"ETCDCTL_ENDPOINTS": "https://h1:2379, h2:2380,[::1]:7", "ETCDCTL_CACERT": "ca", "ETCDCTL_CERT": "c", "ETCDCTL_KEY": "k",
		"ETCDCTL_USER": "me", "ETCDCTL_PASSWORD": "secret", "ETCDCTL_DIAL_TIMEOUT": "3s",
	}
	l, from, err := Find("", getenv)
	require.NoError(t, err)
	require.Equal(t, "ETCDCTL_ENDPOINTS", from)
	require.Equal(t, Location{
		Scheme: "etcd", Hosts: []string{"h1:2379", "h2:2380", "[::1]:7"}, User: "me", Password: "secret", TLS: true, CACert: "ca",
		Cert: "c", Key: "k", DialTimeout: 3 * time.Second,
	}, *l)
	environ["ETCDCTL_USER"] = "me:other"
	l, _, err = Find("", getenv)
	require.NoError(t, err)
	require.Equal(t, "other", l.Password)
	environ["ETCDCTL_ENDPOINTS"] = "http://u:secret@h"
	_, _, err = Find("", getenv)
	require.ErrorContains(t, err, "ETCDCTL_ENDPOINTS: host 1 of 1")
	require.NotContains(t, err.Error(), "secret")

	environ[Variable] = "zk://h"
	l, from, err = Find("", getenv)
	require.NoError(t, err)
	require.Equal(t, Variable, from)
	require.Equal(t, "zk://h:2181", l.String())
	l, from, err = Find("redis://h2", getenv)
	require.NoError(t, err)
	require.Equal(t, "--store", from)
	require.Equal(t, "redis://h2:6379", l.String())
}

func TestOpenTellsWhichFileIsWrong(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	for _, url := range []string{
		"etcd://u@h?plaintext=1&password-file=" + missing, "zk://h?cacert=" + missing, "redis://h?cacert=" + text, "etcd://h?cert=" + text + "&key=" + text,
	} {
		l, err := Parse(url)
		require.NoError(t, err)
		_, closed, err := l.Open(t.Context(), farsync.Options{})
		require.ErrorIs(t, err, ErrConfig, url)
		require.NoError(t, closed())
	}
	for file, says := range map[string]string{
		missing + "/x.db":     "there is no directory " + missing,
		filepath.Dir(text):    "is a directory",
		text:                  "is not a database of SQLite",
		os.DevNull:            "is a device",
		filepath.Dir(missing): "is a directory",
	} {
		l, err := Parse("sqlite:" + file)
		require.NoError(t, err)
		_, _, err = l.Open(t.Context(), farsync.Options{})
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, says)
	}
}

// TestExistsMakesNothing: not even the log of a file that has one.
func TestExistsMakesNothing(t *testing.T) {
	dir := t.TempDir()
	files := func() (list []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	l, err := Parse("sqlite:" + dir + "/locks.db?ttl=60s")
	require.NoError(t, err)
	exists := func(says string) {
		t.Helper()
		before := files()
		err := l.Exists(t.Context())
		require.Equal(t, before, files())
		if says == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, says)
	}
	exists("no such file")
	require.NoError(t, os.WriteFile(l.File, nil, 0o600))
	exists("has no tables of farsync")
	other, err := sql.Open("sqlite", l.File+"?_pragma=journal_mode(wal)")
	require.NoError(t, err)
	_, err = other.ExecContext(t.Context(), "CREATE TABLE books (title TEXT)")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	exists("has no tables of farsync")
	store, closed, err := l.Open(t.Context(), farsync.Options{})
	require.NoError(t, err)
	exists("") // while its tables may be in the log alone
	require.NoError(t, store.Close())
	require.NoError(t, closed())
	exists("")
}

func TestSwitchesNeedNoValue(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u@h/app?migrate":           "postgres://u@h:5432/app?migrate=1",
		"postgres://u@h/app?migrate&prefix=/p": "postgres://u@h:5432/app?migrate=1&prefix=%2Fp",
		"mysql://h/app?tls&migrate":            "mysql://h:3306/app?migrate=1&tls=1",
		"redis://h?fresh":                      "redis://h:6379?fresh=1",
		"sqlite:x.db?sync":                     "sqlite:x.db?sync=1",
	} {
		l, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, l.Portable())
	}
	for _, text := range []string{"postgres://u@h/app?migrate=", "etcd://h?ttl", "etcd://h?cacert", "postgres://u@h/app?migrate&migrate"} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
}

// TestOtherProgramsURLs: a person who writes the URL of another program is told which one to write.
func TestOtherProgramsURLs(t *testing.T) {
	for text, want := range map[string]string{
		"postgresql://u:secret@h/app": "write postgres:// instead", "rediss://:secret@h": "write redis:// with ?tls=1 instead",
		"http://h:2379": "write etcd:// instead", "sqlite://locks.db": "a file has no host", "sqlite:file:x": "a URI", "sqlite::memory:": "a URI",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret")
	}
	l, err := Parse("SQLite:x.db")
	require.NoError(t, err)
	require.Equal(t, "sqlite:x.db", l.String())
}

func TestOpenedStoreLocks(t *testing.T) {
	l, err := Parse("sqlite:" + filepath.Join(t.TempDir(), "x.db") + "?ttl=600s")
	require.NoError(t, err)
	store, closed, err := l.Open(t.Context(), farsync.Options{})
	require.NoError(t, err)
	lease, err := farsync.NewMutex(store, l.Join("/x")).Lock(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Until(lease.Deadline()), 10*time.Minute, "the URL says its TTL")
	require.Greater(t, time.Until(lease.Deadline()), time.Minute, "the URL says its TTL, which is longer than the default")
	require.NoError(t, lease.Release())
	require.NoError(t, store.Close())
	require.NoError(t, closed())
}
