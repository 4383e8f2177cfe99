package location

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spellings are what becomes of a URL on its way through files of settings, shells, pages and text processors.
var spellings = map[string]func(url string) string{
	"a newline at its end":              func(url string) string { return url + "\n" },
	"a carriage return at its end":      func(url string) string { return url + "\r" },
	"the end of a line of Windows":      func(url string) string { return url + "\r\n" },
	"a blank at its end":                func(url string) string { return url + " " },
	"a blank at its beginning":          func(url string) string { return " " + url },
	"a tabulator at its end":            func(url string) string { return url + "\t" },
	"a form feed at its end":            func(url string) string { return url + "\f" },
	"a blank that breaks no line":       func(url string) string { return url + "\u00a0" },
	"a blank without a width":           func(url string) string { return url + "\u200b" },
	"a mark of the order of bytes":      func(url string) string { return "\ufeff" + url },
	"a mark of the direction of a text": func(url string) string { return url + "\u202e" },
	"an escape sequence":                func(url string) string { return url + "\x1b[0m" },
	"a NUL at its end":                  func(url string) string { return url + "\x00" },
	"a byte that is no UTF-8":           func(url string) string { return url + "\xff" },
	"quotes":                            func(url string) string { return `"` + url + `"` },
	"apostrophes":                       func(url string) string { return "'" + url + "'" },
	"a quote at its end":                func(url string) string { return url + `"` },
	"a quote behind the scheme":         func(url string) string { return strings.Replace(url, ":", `:"`, 1) + `"` },
	"typographic quotes":                func(url string) string { return "“" + url + "”" },
	"a comment":                         func(url string) string { return url + " # the locks" },
	"a comment without a blank":         func(url string) string { return url + "#locks" },
	"a semicolon":                       func(url string) string { return url + ";" },
	"a comma":                           func(url string) string { return url + "," },
	"a backslash":                       func(url string) string { return url + `\` },
	"angle brackets":                    func(url string) string { return "<" + url + ">" },
}

// TestSpellingsOfAURL: what is not the URL that it looks like is refused on every store, whatever the URL ends with. A
// lock on another service, or in another file, is no lock.
func TestSpellingsOfAURL(t *testing.T) {
	bases := map[string]string{
		"etcd": "etcd://h/locks", "zk": "zk://h/locks", "redis": "redis://h/locks", "postgres": "postgres://u@h/app",
		"mysql": "mysql://h/app", "sqlite": "sqlite:/locks.db",
	}
	with := map[string]string{"cert": "?key=k", "key": "?cert=c", "password-file": "?tls=1", "master": "?db=1"}
	values := map[string]string{
		"ttl": "10s", "dial-timeout": "10s", "tls": "1", "plaintext": "1", "fresh": "1", "migrate": "1", "sync": "1", "prefix": "/p",
		"db": "1", "replicas": "1", "connections": "2", "namespace": "/n", "password-file": "/f", "schema": "s", "cacert": "/f", "cert": "/f", "key": "/f", "master": "m",
	}
	for name, s := range schemes {
		urls := []string{bases[name]}
		for _, option := range s.options {
			base, value := bases[name], values[option]
			require.NotEmpty(t, value, option)
			if option == "password-file" {
				base = strings.NewReplacer("//h", "//u@h").Replace(base)
			}
			if also := with[option]; also != "" {
				base += also + "&"
			} else {
				base += "?"
			}
			urls = append(urls, base+option+"="+value)
		}
		for _, url := range urls {
			_, err := Parse(url)
			require.NoError(t, err, url)
			for how, spelled := range spellings {
				if filepath.Separator == '\\' && how == "a backslash" {
					continue
				}
				_, err := Parse(spelled(url))
				require.Error(t, err, "%s: %q", how, spelled(url))
				for _, c := range err.Error() {
					require.False(t, invisible(c) && c != ' ', "the error is a line: %q", err)
				}
			}
		}
	}
}

// TestNamesOfFiles: what stands for itself in the name of a file, and what is said of the rest.
func TestNamesOfFiles(t *testing.T) {
	for text, file := range map[string]string{
		"sqlite:/a-b_c.d~/e:f@g+h=i":             "/a-b_c.d~/e:f@g+h=i",
		"sqlite:/Schl\u00f6sser/\u9501":          "/Schl\u00f6sser/\u9501",
		"sqlite:/a%20b/%22%27%23%24%26%3B%2C%7E": `/a b/"'#$&;,~`,
		"sqlite:%7E/x":                           "~/x",
	} {
		l, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, file, l.File)
		again, err := Parse(l.String())
		require.NoError(t, err, l.String())
		require.Equal(t, file, again.File)
	}
	for text, says := range map[string]string{
		"sqlite:/a b.db":        "white space in its middle: remove it, or write it as %20",
		"sqlite:/a.db&ttl=5s":   "write it as %26",
		"sqlite:$HOME/a.db":     "write it as %24",
		"sqlite:${HOME}/a.db":   "write it as %24",
		"sqlite:~/a.db":         "no shell replaces ~ there",
		"sqlite:~me/a.db":       "no shell replaces ~ there",
		"sqlite:/a.db/":         "the path of a file in it",
		"sqlite:/a%0A.db":       "a character that cannot be shown",
		"sqlite:/a%C2%A0.db":    "a character that cannot be shown",
		"sqlite:/a%E2%80%AE.db": "a character that cannot be shown",
		"sqlite:/a%FF.db":       "a character that cannot be shown",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, says, text)
	}
}

// TestNamesOfFilesInOptions: what stands for itself in the name of a file does in an option, and what is passed on names the
// same file.
func TestNamesOfFilesInOptions(t *testing.T) {
	for text, file := range map[string]string{
		"/etc/a+b/ca.pem":            "/etc/a+b/ca.pem",
		"/etc/a%2Bb/ca.pem":          "/etc/a+b/ca.pem",
		"/etc/a%20b/c++.pem":         "/etc/a b/c++.pem",
		"/a-b_c.d~/e:f@g+h=i":        "/a-b_c.d~/e:f@g+h=i",
		"/a%26b%3Dc%25%23%3F%3B.pem": "/a&b=c%#?;.pem",
	} {
		l, err := Parse("redis://h?cacert=" + text)
		require.NoError(t, err, text)
		require.Equal(t, file, l.CACert)
		again, err := Parse(l.Portable())
		require.NoError(t, err, l.Portable())
		require.Equal(t, file, again.CACert, l.Portable())
	}
	l, err := Parse("redis://h?cacert=/a%20b+c")
	require.NoError(t, err)
	require.Equal(t, "redis://h:6379?cacert=%2Fa%20b%2Bc&tls=1", l.Portable())
}

// TestRelativeFiles: one of --store is that below the directory of the caller, wherever what is passed on is used, and one
// of the environment is refused.
func TestRelativeFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd()
	require.NoError(t, err)
	none := func(string) string { return "" }
	l, _, err := Find("sqlite:locks/../other.db?ttl=5s", none)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "locks")+"/../other.db", l.File)
	require.Equal(t, "sqlite:"+dir+"/locks/../other.db?ttl=5s", l.Portable())
	l, _, err = Find("etcd://u@h?password-file=p&cacert=/ca&cert=c&key=k", none)
	require.NoError(t, err)
	require.Equal(t, []string{dir + "/p", "/ca", dir + "/c", dir + "/k"}, []string{l.PasswordFile, l.CACert, l.Cert, l.Key})
	for _, text := range []string{"sqlite:locks.db", "sqlite:./locks.db", "sqlite:../locks.db"} {
		_, from, err := Find("", func(name string) string { return map[string]string{Variable: text}[name] })
		require.Equal(t, Variable, from)
		require.ErrorContains(t, err, "FARSYNC_STORE: sqlite: the file is relative, and another one in another directory: write sqlite:/DIRECTORY/FILE")
	}
}

// TestSpellingsElsewhere: of the variables of etcdctl, and of the file of a password.
func TestSpellingsElsewhere(t *testing.T) {
	for how, spelled := range spellings {
		if strings.HasPrefix(how, "a comment without") || how == "a semicolon" || how == "a comma" || how == "a backslash" ||
			how == "angle brackets" || how == "a quote behind the scheme" {
			continue // a password, a user or a file may have these
		}
		for _, name := range []string{"ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY", "ETCDCTL_USER"} {
			environ := map[string]string{
				"ETCDCTL_ENDPOINTS": "https://h", "ETCDCTL_CERT": "/c", "ETCDCTL_KEY": "/k", "ETCDCTL_USER": "me", "ETCDCTL_PASSWORD": "secret",
			}
			environ[name] = spelled("/x")
			_, _, err := Find("", func(name string) string { return environ[name] })
			require.ErrorContains(t, err, name+" has ", how)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	for text, fits := range map[string]bool{
		"secret": true, "secret\n": true, "secret\r\n": true, "a b": true, "\ufeffsecret": false, "secret\nother\n": false, "se\x00cret": false,
		"": false, "\n": false, "\r\n": false,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		l, err := Parse("etcd://u@h?tls=1&password-file=" + file)
		require.NoError(t, err)
		if err = l.CheckFiles(); fits {
			require.NoError(t, err, "%q", text)
			continue
		}
		require.ErrorIs(t, err, ErrConfig, "%q", text)
		require.NotContains(t, err.Error(), "secret")
	}
}
