// Package location says where a Store is: it parses the URLs that the command takes, and opens what they name.
//
//	etcd://[user[:password]@]host[:2379][,host…][/prefix][?option=value&…]
//	zk://[user:password@]host[:2181][,host…][/prefix][?…]
//	redis://[user:password@]host[:6379][/prefix][?…]
//	postgres://user[:password]@host[:5432]/database[?…]
//	mysql://[user[:password]@]host[:3306]/database[?…]
//	sqlite:FILE[?…]
package location

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/farsync/farsync/recipe"
)

// A Location is where a Store is. Its String has no password, and no error of this package shows one.
type Location struct {
	Scheme string   // etcd, zk, redis, postgres, mysql or sqlite
	Hosts  []string // host:port each; none for sqlite
	File   string   // of sqlite
	Prefix string   // put in front of every path; empty, or a path

	User, Password string
	PasswordFile   string

	TTL time.Duration // 0 is the Store's default

	TLS               bool
	CACert, Cert, Key string

	DialTimeout time.Duration // for how long Open tries to reach the service; 0 is 30 s
	Namespace   string        // of zk and redis
	Plaintext   bool          // allows a password without TLS
	Database    int           // of redis
	Schema      string        // of postgres and mysql: the name of the database
	Tables      string        // of postgres: the schema that has the tables; empty is the first of the role's search_path
	Master      string        // redis: the name by which the hosts, which are Sentinels, know it
	Replicas    int           // of redis
	Fresh       bool          // of redis
	Migrate     bool          // of postgres and mysql
	Most        int           // of postgres and mysql: how many connections a Store has; 0 is the Store's default
	Sync        bool          // of sqlite
}

// The bounds of a TTL, the same as for the option TTL of a Store.
const (
	LeastTTL = time.Second
	MostTTL  = 24 * time.Hour
)

// A scheme is what is particular to the URLs of one store.
type scheme struct {
	port    string // where the URL names none
	options []string
}

var (
	common  = []string{"ttl", "dial-timeout"}
	secret  = []string{"password-file", "tls", "cacert", "cert", "key", "plaintext"}
	schemes = map[string]scheme{
		"etcd":     {"2379", slices.Concat(common, secret)},
		"zk":       {"2181", slices.Concat(common, secret, []string{"namespace"})},
		"redis":    {"6379", slices.Concat(common, secret, []string{"namespace", "db", "master", "replicas", "fresh"})},
		"postgres": {"5432", slices.Concat(common, secret, []string{"prefix", "schema", "migrate", "connections"})},
		"mysql":    {"3306", slices.Concat(common, secret, []string{"prefix", "migrate", "connections"})},
		"sqlite":   {"", slices.Concat(common, []string{"sync", "prefix"})},
	}
)

// meant are the beginnings of the URLs of other programs for the same services, with what Parse takes in their place.
var meant = map[string]string{
	"postgresql": "postgres://", "pg": "postgres://", "pgsql": "postgres://", "mariadb": "mysql://", "zookeeper": "zk://",
	"rediss": "redis:// with ?tls=1", "valkey": "redis://", "sqlite3": "sqlite:FILE", "file": "sqlite:FILE", "http": "etcd://",
	"https": "etcd:// with ?tls=1", "etcds": "etcd:// with ?tls=1", "etcd3": "etcd://",
}

// switches are the options that are 1 or 0. Without a value one of them is 1.
var switches = []string{"tls", "plaintext", "fresh", "migrate", "sync"}

// schemas are the names that a schema of PostgreSQL has without quotes; in the case that they are written in.
var schemas = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Forms are the URLs that Parse takes, for a message.
const Forms = "etcd://HOST:2379, zk://HOST:2181, redis://HOST:6379, postgres://USER@HOST:5432/DATABASE, mysql://HOST:3306/DATABASE " +
	"or sqlite:FILE"

// Parse parses a URL. An error tells which part is wrong and never repeats the text, for the part may be a password.
func Parse(text string) (*Location, error) {
	if err := checkText(text); err != nil {
		return nil, fmt.Errorf("the URL %w", err)
	}
	name, rest, found := strings.Cut(text, ":")
	name = strings.ToLower(name)
	s, known := schemes[name]
	switch instead := meant[name]; {
	case found && !known && instead != "":
		return nil, fmt.Errorf("%s: write %s instead; a store is %s", name, instead, Forms)
	case !found || !known:
		return nil, errors.New("a store is " + Forms)
	}
	l := &Location{Scheme: name}
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if name == "sqlite" {
		err = l.parseFile(rest)
	} else {
		err = l.parseServers(rest, s.port)
	}
	if err == nil {
		err = l.parseQuery(query, s.options)
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func (l *Location) parseFile(rest string) error {
	if err := checkPlain(rest); err != nil {
		return fmt.Errorf("the file name %w", err)
	}
	file, err := url.PathUnescape(rest)
	if err != nil {
		return errors.New("the file name has a % that begins no escape: write %25")
	}
	switch {
	case file == "":
		return errors.New("no file: write sqlite:FILE")
	case strings.HasPrefix(file, "//"):
		return errors.New("a file has no host: write sqlite:FILE, without // before the name")
	case strings.HasPrefix(file, "file:"), strings.Contains(file, ":memory:"):
		return errors.New("a URI, or :memory:, is not a file that processes share: write sqlite:FILE with its path")
	case strings.HasPrefix(rest, "~"):
		return errors.New("no shell replaces ~ there: write the directory that it stands for, or %7E for a file of that name")
	case os.IsPathSeparator(file[len(file)-1]):
		return errors.New("the file name ends like that of a directory: write the path of a file in it")
	case !utf8.ValidString(file), strings.ContainsFunc(file, func(c rune) bool { return !unicode.IsPrint(c) }):
		return errors.New("the file name has a character that cannot be shown: write one without")
	}
	l.File = file
	return nil
}

// parseServers cuts the authority off by itself: net/url knows one host.
func (l *Location) parseServers(rest, port string) error {
	rest, found := strings.CutPrefix(rest, "//")
	if !found {
		return errors.New("write // before the host")
	}
	authority, prefix, slash := strings.Cut(rest, "/")
	if l.relational() {
		l.Schema = prefix
	} else if slash && prefix != "" {
		l.Prefix = "/" + strings.TrimSuffix(prefix, "/")
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		authority = authority[at+1:]
		var errs [2]error
		l.User, errs[0] = url.PathUnescape(user)
		l.Password, errs[1] = url.PathUnescape(password)
		if errs[0] != nil || errs[1] != nil {
			return errors.New("user or password has a % that begins no escape: write %25")
		}
	}
	hosts := strings.Split(authority, ",")
	for i, host := range hosts {
		address, err := addressOf(host, port)
		if err != nil {
			return fmt.Errorf("host %d of %d %w", i+1, len(hosts), err)
		}
		l.Hosts = append(l.Hosts, address)
	}
	return nil
}

// addressOf returns host:port of a host that may come without a port, and in brackets.
func addressOf(text, port string) (string, error) {
	host := text
	if inside, after, found := strings.Cut(strings.TrimPrefix(text, "["), "]"); found && text[0] == '[' {
		if ip, err := netip.ParseAddr(inside); err != nil || !ip.Is6() {
			return "", errors.New("has something else than an IPv6 address in brackets")
		}
		host, after = inside, strings.TrimPrefix(after, ":")
		if text != "["+inside+"]" {
			port = after
		}
	} else {
		if before, after, found := strings.Cut(text, ":"); found {
			host, port = before, after
		}
		if host == "" {
			return "", errors.New("is empty")
		}
		if strings.ContainsFunc(host, func(c rune) bool { return !hostRune(c) }) {
			return "", errors.New("is not HOST or HOST:PORT; in a password write @ as %40, / as %2F and ? as %3F")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("has a port that is not a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

func hostRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}

// check refuses what fits the grammar and cannot be meant.
func (l *Location) check() error {
	if l.Prefix != "" && recipe.CheckPath(l.Prefix) != nil {
		return errors.New("the prefix is not a path: write /team/shop, in letters, digits, dots, dashes and underscores")
	}
	_, digits := strconv.Atoi(strings.TrimPrefix(l.Prefix, "/"))
	switch {
	case l.TTL != 0 && (l.TTL < LeastTTL || l.TTL > MostTTL):
		return errors.New("option ttl is too short or too long: write a time from 1s to 24h")
	case l.Scheme == "redis" && l.Prefix != "" && digits == nil:
		return errors.New("the prefix is a number; for a database write ?db=")
	case l.Scheme == "redis" && len(l.Hosts) > 1 && l.Master == "":
		return errors.New("several hosts are Sentinels, and need ?master=NAME")
	case l.relational() && (l.Schema == "" || recipe.CheckPath("/"+l.Schema) != nil || strings.Contains(l.Schema, "/")):
		return errors.New("write the name of the database behind the host: HOST/DATABASE; for a prefix write ?prefix=")
	case l.Tables != "" && (len(l.Tables) > 63 || !schemas.MatchString(l.Tables)):
		return errors.New("option schema is no name of one: write letters, digits and underscores")
	case l.relational() && len(l.Hosts) > 1:
		return errors.New("several hosts: there is one primary, so write its host alone")
	case l.Password != "" && l.PasswordFile != "":
		return errors.New("a password and a password-file: leave one of them out")
	case (l.Password != "" || l.PasswordFile != "") && l.User == "" && l.Scheme != "redis":
		return errors.New("a password without a user: write USER:PASSWORD@, or USER@ with ?password-file=")
	case l.Scheme == "postgres" && l.User == "":
		return errors.New("no user: write USER@ or USER:PASSWORD@")
	case l.User != "" && l.Password == "" && l.PasswordFile == "" && !l.relational(): // these know other proofs
		return errors.New("a user without a password: write USER:PASSWORD@ or ?password-file=")
	case (l.Cert == "") != (l.Key == ""):
		return errors.New("of cert and key there is only one: give both")
	case l.inTheClear():
		return errors.New("the password would be sent in the clear, to whoever answers: set tls=1, or plaintext=1 if that is meant")
	}
	return nil
}

// inTheClear reports whether a password would be sent over a network without TLS, and nobody has said so. That a server
// asks for a proof that does not show it, as databases mostly do, is up to whoever answers. Behind Sentinels the
// server is where they say it is, and need not be where they are.
func (l *Location) inTheClear() bool {
	return (l.Password != "" || l.PasswordFile != "") && !l.TLS && !l.Plaintext &&
		(l.Master != "" || slices.ContainsFunc(l.Hosts, func(host string) bool { return !loopback(host) }))
}

// loopback reports whether a host:port is on this machine.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, isNone := netip.ParseAddr(host)
	return err == nil && (strings.EqualFold(host, "localhost") || isNone == nil && ip.IsLoopback())
}

// relational reports whether the path of the URL is the name of a database.
func (l *Location) relational() bool { return l.Scheme == "postgres" || l.Scheme == "mysql" }

// Join returns the path of the service for a path of the user.
func (l *Location) Join(path string) string { return l.Prefix + path }

// String returns the URL without user, password and options.
func (l *Location) String() string {
	if l.Scheme == "sqlite" {
		return "sqlite:" + escape(l.File)
	}
	text := l.Scheme + "://" + strings.Join(l.Hosts, ",")
	if l.relational() {
		return text + "/" + l.Schema
	}
	return text + l.Prefix
}

// Portable returns the URL with all but the password.
func (l *Location) Portable() string {
	text := l.String()
	options := url.Values{}
	set := func(name, value string, yes bool) {
		if yes {
			options.Set(name, value)
		}
	}
	set("ttl", l.TTL.String(), l.TTL != 0)
	set("dial-timeout", l.DialTimeout.String(), l.DialTimeout != 0)
	set("password-file", l.PasswordFile, l.PasswordFile != "")
	set("tls", "1", l.TLS)
	set("cacert", l.CACert, l.CACert != "")
	set("cert", l.Cert, l.Cert != "")
	set("key", l.Key, l.Key != "")
	set("namespace", l.Namespace, l.Namespace != "")
	set("plaintext", "1", l.Plaintext)
	set("db", strconv.Itoa(l.Database), l.Database != 0)
	set("schema", l.Tables, l.Tables != "")
	set("master", l.Master, l.Master != "")
	set("replicas", strconv.Itoa(l.Replicas), l.Replicas != 0)
	set("fresh", "1", l.Fresh)
	set("migrate", "1", l.Migrate)
	set("connections", strconv.Itoa(l.Most), l.Most != 0)
	set("sync", "1", l.Sync)
	set("prefix", l.Prefix, (l.Scheme == "sqlite" || l.relational()) && l.Prefix != "")
	if l.User != "" {
		text = strings.Replace(text, "://", "://"+url.User(l.User).String()+"@", 1)
	}
	if len(options) > 0 {
		text += "?" + strings.ReplaceAll(options.Encode(), "+", "%20") // its + are blanks, as in a form of a page
	}
	return text
}
