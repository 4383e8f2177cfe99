//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// An input is a call of the command that is wrong.
type input struct {
	// line is the call, in words, after NAME=VALUE for the environment. ~ in a word is a space. DIR is a folder, with
	// what stock puts there.
	line string
	code int
	// wrong and instead are in the line that it says: what is wrong, and what to write instead. "" where there is
	// nothing else to write.
	wrong, instead string
}

// misused are calls that are answered before a service is asked for anything.
var misused = []input{
	// Verbs, and how many arguments they take
	{"", 64, "A verb is missing", "write farsync VERB"},
	{"--json", 64, "a verb is missing", "farsync --help lists the verbs"},
	{"wo", 64, "no verb wo", "did you mean farsync who?"},
	{"rnu /x -- true", 64, "no verb rnu", "did you mean farsync run?"},
	{"list", 64, "no verb list", "did you mean farsync who?"},
	{"unlock /x", 64, "no verb unlock", "did you mean farsync break?"},
	{"frobnicate", 64, "no verb frobnicate", "farsync --help lists the verbs"},
	{"/x -- true", 64, "/x stands in the place of a verb", "write farsync run /x -- COMMAND"},
	{"help frobnicate", 64, "no verb frobnicate", "farsync --help lists the verbs"},
	{"help run who", 64, "who is one argument too many", "write farsync help [VERB]"},
	{"ask", 64, "an argument is missing", "write farsync ask PATH"},
	{"ask /x /y", 64, "/y is one argument too many", "write farsync ask PATH"},
	{"break", 64, "an argument is missing", "write farsync break"},
	{"leader", 64, "an argument is missing", "write farsync leader PATH"},
	{"leader /l /m", 64, "/m is one argument too many", "write farsync leader PATH"},
	{"who /x /y", 64, "/y is one argument too many", "write farsync who [PATH | PREFIX/]"},
	{"watch /x /y", 64, "/y is one argument too many", "write farsync watch"},
	{"serve /a/ /b/", 64, "/b/ is one argument too many", "write farsync serve"},
	{"doctor /a/ /b/", 64, "/b/ is one argument too many", "write farsync doctor"},
	{"resize --limit 3 /x", 64, "an argument is missing", "write farsync resize --limit DECLARED PATH SIZE"},
	{"resize --limit 3 /x 5 6", 64, "6 is one argument too many", "write farsync resize"},
	{"man a b", 64, "b is one argument too many", "write farsync man [DIRECTORY]"},
	{"version x", 64, "version takes no argument", "leave out x"},
	{"held x", 64, "held takes no argument", "leave out x"},
	{"completion", 64, "an argument is missing", "write farsync completion bash|zsh|fish|powershell"},
	{"completion csh", 64, "csh is a shell for which there is no completion", "write bash, zsh, fish or powershell"},
	{"schema", 64, "an argument is missing", "write farsync schema postgres|mysql"},
	{"schema oracle", 64, "oracle has no schema", "write postgres or mysql"},

	// Flags that are none
	{"--bogus", 64, "farsync has no flag --bogus", "farsync --help lists the flags"},
	{"-n run /x -- true", 64, "farsync has no flag -n", "those of a verb stand behind the verb"},
	{"run --sigal INT /x -- true", 64, "run has no flag --sigal", "did you mean --signal?"},
	{"run --timeout 5 /x -- true", 64, "run has no flag --timeout", "did you mean --wait?"},
	{"run -nu /x -- true", 64, "run has no flag -u", "farsync run --help lists its flags"},
	{"run /x backup.sh --full", 64, "run has no flag --full", "COMMAND stands with its own behind --"},
	{"run --token 5 /x -- true", 64, "run has no flag --token", "which is one of farsync break"},
	{"who --every 2", 64, "who has no flag --every", "which is one of farsync watch"},
	{"elect --nonblock /l -- true", 64, "elect has no flag --nonblock", "which is one of farsync"},
	{"run ---x", 64, "bad flag syntax: ---x", "farsync --help shows how flags are written"},
	{"run --json=maybe /x -- true", 64, "--json maybe", "it takes no value: write --json alone"},

	// Values of flags
	{"run -w", 64, "--wait needs a value", "write --wait DURATION"},
	{"run --limit", 64, "--limit needs a value", "write --limit SIZE"},
	{"who --store", 64, "--store needs a value", "write --store URL"},
	{"run -w soon /x -- true", 64, "--wait soon", "write a time such as 10, 0.5 or 10m"},
	{"run -w -1 /x -- true", 64, "--wait -1", "write a time such as 10, 0.5 or 10m"},
	{"run -w /x -- true", 64, "--wait /x", "write a time such as 10, 0.5 or 10m"},
	{"run -w 1e300 /x -- true", 64, "--wait 1e300", "write a time such as 10, 0.5 or 10m"},
	{"run --grace 5x /x -- true", 64, "--grace 5x", "write a time such as 10, 0.5 or 10m"},
	{"run --at-least -1m /x -- true", 64, "--at-least -1m", "write a time such as 10, 0.5 or 10m"},
	{"run --ttl 1ms /x -- true", 64, "--ttl 1ms", "write a time from 1s to 24h"},
	{"run --ttl 25h /x -- true", 64, "--ttl 25h", "write a time from 1s to 24h"},
	{"elect --ttl 0 /l -- true", 64, "--ttl 0s", "write a time from 1s to 24h"},
	{"hold --ttl long /x", 64, "--ttl long", "write a time such as 10, 0.5 or 10m"},
	{"--dial-timeout 0 who", 64, "--dial-timeout is 0", "write a time such as 5s"},
	{"--dial-timeout never who", 64, "--dial-timeout never", "write a time such as 10, 0.5 or 10m"},
	{"watch --every abc", 64, "--every abc", "write a time such as 10, 0.5 or 10m"},
	{"watch --every 0.01", 64, "--every 10ms", "write 0.2 or more"},
	{"who --longer -5", 64, "--longer -5", "write a time such as 10, 0.5 or 10m"},
	{"ask --wait x /x", 64, "--wait x", "write a time such as 10, 0.5 or 10m"},
	{"run --limit abc /x -- true", 64, "--limit abc", "write a whole number from 1 on"},
	{"run --limit 0 /x -- true", 64, "--limit 0", "write a whole number from 1 on"},
	{"run --limit -3 /x -- true", 64, "--limit -3", "write a whole number from 1 on"},
	{"run --limit 99999999999999999999 /x -- true", 64, "--limit 99999999999999999999", "write a whole number from 1 on"},
	{"run --limit 3 --units 0 /x -- true", 64, "--units 0", "write a whole number from 1 on"},
	{"run --limit 3 --units 1.5 /x -- true", 64, "--units 1.5", "write a whole number from 1 on"},
	{"run -E 256 /x -- true", 64, "--conflict-exit-code 256", "write a whole number from 0 to 255"},
	{"run -E abc /x -- true", 64, "--conflict-exit-code abc", "write a whole number from 0 to 255"},
	{"hold -E -1 /x", 64, "--conflict-exit-code -1", "write a whole number from 0 to 255"},
	{"break --token abc --yes /x", 64, "--token abc", "write a whole number from 1 on"},
	{"break --token 0 --yes /x", 64, "--token 0", "write a whole number from 1 on"},
	{"resize --limit 3 /x abc", 64, "SIZE abc", "write a whole number from 1 on"},
	{"resize --limit 3 /x 0", 64, "SIZE 0", "write a whole number from 1 on"},
	{"resize --limit none /x 5", 64, "--limit none", "write a whole number from 1 on"},
	{"resize /x 5", 64, "--limit is missing", "write the size that the users of PATH say, and go on saying in a rolling deployment"},
	{"run --signal FOO /x -- true", 64, "--signal FOO: there is no such signal", "write its name, TERM or SIGINT for example"},
	{"run --signal 15 /x -- true", 64, "--signal 15: there is no such signal", "write its name, TERM or SIGINT for example"},
	{"elect --signal SIGNOTHING /l -- true", 64, "--signal SIGNOTHING: there is no such signal", "write its name"},
	{"run --leftovers some /x -- true", 64, "--leftovers some", "write wait, kill or leave"},
	{"run --on-ask nothing /x -- true", 64, "--on-ask nothing", "write say or term"},
	{"run --label a\nb /x -- true", 64, "--label has a character that cannot be shown", "write letters, digits, signs and spaces"},
	{"hold --label \x1b[31m /x", 64, "--label has a character that cannot be shown", "write letters, digits, signs and spaces"},
	{"elect --label " + strings.Repeat("x", 513) + " /l -- true", 64, "--label has 513 bytes", "write 512 at most"},
	{"run --status DIR/none/s /x -- true", 64, "there is no directory", "make it first"},
	{"run --status DIR/text/s /x -- true", 64, "there is no directory", "make it first"},
	{"elect --status DIR /l -- true", 64, "is a directory", "write the name of a file"},
	{"serve --listen banana", 64, "--listen banana", "write HOST:PORT"},
	{"serve --listen 127.0.0.1:99999", 64, "--listen 127.0.0.1:99999", "write HOST:PORT"},
	{"serve --listen 7070", 64, "--listen 7070", "write HOST:PORT"},
	{"serve --listen 127.0.0.1:no", 64, "--listen 127.0.0.1:no", "write HOST:PORT"},
	{"serve --trace-url jaeger.example.com/{trace}", 64, "--trace-url is none", "write an http or https URL with {trace} in it"},
	{"serve --trace-url javascript:alert({trace})", 64, "--trace-url is none", "write an http or https URL with {trace} in it"},
	{"serve --trace-url https://jaeger.example.com/", 64, "--trace-url is none", "write an http or https URL with {trace} in it"},

	// Flags that contradict one another
	{"run -n -w 5 /x -- true", 64, "--nonblock does not wait, and --wait does", "write one of them"},
	{"hold -n -w 0.5 /x", 64, "--nonblock does not wait, and --wait does", "write one of them"},
	{"run -s -x /x -- true", 64, "--shared is a read lock, and --exclusive the write lock", "write one of them"},
	{"run -s --limit 3 /x -- true", 64, "--limit is a semaphore", "leave out --limit, or --shared and --exclusive"},
	{"hold -x --limit 3 /x", 64, "--limit is a semaphore", "leave out --limit, or --shared and --exclusive"},
	{"run --units 2 /x -- true", 64, "--units are those of a semaphore", "--limit SIZE"},
	{"run -c true /x -- true", 64, "-c LINE is the COMMAND", "leave out -c, or the COMMAND behind --"},
	{"break --token 5 /x", 64, "--token and --yes go together", "write both, or neither"},
	{"break --yes /x", 64, "--token and --yes go together", "write both, or neither"},
	{"break /x", 64, "without a terminal", "give --token and --yes"},
	{"break -w 0 --token 5 --yes /x", 64, "--wait is 0, and the holder would not be told", "write how long to wait"},
	{"break --delete --ask 5 --token 5 --yes /x", 64, "--delete asks nobody, and --ask does", "write one of them"},
	{"who --tree --json", 64, "--tree is for people", "leave it out"},

	// What to lock, and COMMAND
	{"run /x", 64, "no COMMAND", "write it behind --, as in farsync run PATH -- COMMAND"},
	{"run /x true", 64, "no COMMAND", "write it behind --"},
	{"run /x --", 64, "no COMMAND", "write it behind --"},
	{"elect /l", 64, "no COMMAND", "write it behind --, as in farsync elect PATH -- COMMAND"},
	{"run -- true", 64, "no PATH", "write what to lock"},
	{"hold", 64, "no PATH", "write what to lock"},
	{"run /x /x -- true", 64, "/x comes twice", "write it once"},
	{"elect /l /m -- true", 64, "elect takes one PATH", "write farsync elect PATH -- COMMAND"},
	{"run x -- true", 65, `"x": no leading slash`, ""},
	{"run /x/ -- true", 65, `bad path "/x/"`, ""},
	{"run /x/../y -- true", 65, `bad path "/x/../y"`, ""},
	{"run /x~y -- true", 65, `bad path "/x y"`, ""},
	{"run /ü -- true", 65, `bad path "/ü"`, ""},
	{"hold x", 65, `"x": no leading slash`, ""},
	{"elect l -- true", 65, `"l": no leading slash`, ""},
	{"who x", 65, `"x": no leading slash`, ""},
	{"watch x", 65, `"x": no leading slash`, ""},
	{"leader l", 65, `"l": no leading slash`, ""},
	{"ask x", 65, `"x": no leading slash`, ""},
	{"break --token 5 --yes x", 65, `"x": no leading slash`, ""},
	{"resize --limit 3 x 5", 65, `"x": no leading slash`, ""},
	{"serve /a", 65, "/a is no prefix", "write /a/"},
	{"serve a/", 65, `"a": no leading slash`, ""},
	{"doctor /a", 65, "/a is no prefix", "write /a/"},
	{"doctor a/", 65, `"a": no leading slash`, ""},
	{"--json who x", 65, `"error":"bad path`, `"exit":65`},
	{"run /x -- no-such-program", 127, "no-such-program: no such program", "write one of PATH, or its path"},
	{"run /x -- ./no-such-program", 127, "./no-such-program: no such program", "write one of PATH, or its path"},
	{"run /x -- DIR/text", 126, "permission denied", ""},
	{"elect /l -- /", 126, "is a directory", ""},

	// The environment of what farsync run has started
	{"held", 64, "FARSYNC_FD is not set", "call held in what farsync run has started"},
	{"FARSYNC_FD=abc held", 64, "FARSYNC_FD is abc, and no number", "leave it as farsync run has set it"},
	{"FARSYNC_FD=999 held", 64, "FARSYNC_FD is 999: the descriptor is not that of farsync run", ""},
	{"FARSYNC_SUPERVISOR=x run /x -- true", 64, "FARSYNC_SUPERVISOR is not for users", ""},
	{"FARSYNC_KEEPER=100 run /x -- true", 64, "FARSYNC_KEEPER is not for users", ""},

	// The store. A bad path comes before a store that is missing
	{"FARSYNC_STORE= run x -- true", 65, `"x": no leading slash`, ""},
	{"FARSYNC_STORE= who x", 65, `"x": no leading slash`, ""},
	{"FARSYNC_STORE= who", 78, "which store?", "Give --store URL or set FARSYNC_STORE"},
	{"FARSYNC_STORE= run /x -- true", 78, "which store?", "Give --store URL or set FARSYNC_STORE"},
	{"FARSYNC_STORE=nonsense who", 78, "FARSYNC_STORE: a store is etcd://HOST:2379", "sqlite:FILE"},
	{"FARSYNC_STORE=etcd://h:port hold /x", 78, "FARSYNC_STORE: etcd: host 1 of 1 has a port", "from 1 to 65535"},
	{"FARSYNC_STORE= ETCDCTL_ENDPOINTS=h:port who", 78, "ETCDCTL_ENDPOINTS: host 1 of 1 has a port", "from 1 to 65535"},
	{"FARSYNC_STORE= ETCDCTL_ENDPOINTS=h ETCDCTL_DIAL_TIMEOUT=x who", 78, "ETCDCTL_DIAL_TIMEOUT is not a time", "write one such as 5s"},
	{"FARSYNC_STORE= ETCDCTL_ENDPOINTS=h ETCDCTL_CERT=c who", 78, "of cert and key there is only one", "give both"},
	{"who --store oracle://h", 78, "a store is etcd://HOST:2379", "sqlite:FILE"},
	{"who --store locks.db", 78, "a store is etcd://HOST:2379", "sqlite:FILE"},
	{"who --store postgresql://u@h/db", 78, "postgresql", "write postgres:// instead"},
	{"who --store rediss://h", 78, "rediss", "write redis:// with ?tls=1 instead"},
	{"who --store http://h:2379", 78, "http", "write etcd:// instead"},
	{"who --store zookeeper://h", 78, "zookeeper", "write zk:// instead"},
	{"who --store etcd:h", 78, "etcd:", "write // before the host"},
	{"who --store etcd://", 78, "etcd: host 1 of 1 is empty", ""},
	{"who --store etcd://h1,,h2", 78, "etcd: host 2 of 3 is empty", ""},
	{"who --store etcd://h:0", 78, "host 1 of 1 has a port", "from 1 to 65535"},
	{"who --store etcd://[h]", 78, "in brackets", "IPv6 address"},
	{"who --store etcd://u:p@ss@h/x//", 78, "the prefix is not a path", "write /team/shop"},
	{"who --store etcd://h?ttl=abc", 78, "option ttl is not a time", "10s"},
	{"who --store etcd://h?ttl=1ms", 78, "option ttl is too short or too long", "write a time from 1s to 24h"},
	{"who --store etcd://h?ttl=", 78, "option ttl is", ""},
	{"who --store etcd://h?bogus=1", 78, "an option is not known there", "there are ttl"},
	{"who --store etcd://h?migrate", 78, "migrate is not known there", "there are ttl"},
	{"who --store etcd://h?tls=maybe", 78, "option tls is neither 1 nor 0", "write one of them"},
	{"who --store etcd://h?tls=1&tls=1", 78, "option tls comes 2 times", "write it once"},
	{"who --store etcd://h?dial-timeout=-5s", 78, "option dial-timeout is not a time", "10s"},
	{"who --store etcd://u@h", 78, "a user without a password", "write USER:PASSWORD@"},
	{"who --store etcd://:p@h", 78, "a password without a user", "write USER:PASSWORD@"},
	{"who --store etcd://u:p@h?password-file=f", 78, "a password and a password-file", "leave one of them out"},
	{"who --store etcd://u@h?plaintext&password-file=DIR/none", 78, "option password-file: open", "no such file"},
	{"who --store etcd://u@h?plaintext&password-file=DIR", 78, "option password-file: ", "is a directory: write the path of a file in it"},
	{"who --store etcd://u@h?plaintext&password-file=DIR/pipe", 78, "/pipe is a device or a pipe", "write the path of a file"},
	{"run --store redis://:@h?plaintext&password-file=/dev/null /x -- true", 78, "/dev/null is a device or a pipe", "write the path of a file"},
	{"who --store redis://h?cacert=DIR/pipe", 78, "option cacert: ", "write the path of a file"},
	{"who --store etcd://h?cert=DIR/text&key=DIR/pipe", 78, "option cert and key: ", "write the path of a file"},
	{"who --store redis://u@h?plaintext&password-file=DIR/empty", 78, "/empty is empty", "write the password in it"},
	{"run --store etcd://h?cacert=DIR/none /x -- true", 78, "option cacert: open", "no such file"},
	{"who --store redis://h?cacert=DIR/text", 78, "option cacert", "has no certificate in PEM"},
	{"who --store etcd://h?cert=DIR/text&key=DIR/text", 78, "option cert and key", "PEM"},
	{"who --store etcd://h?cert=c", 78, "of cert and key there is only one", "give both"},
	{"who --store zk://u:p@h", 78, "the password would be sent in the clear", "set tls=1, or plaintext=1"},
	{"who --store etcd://u:p@h", 78, "etcd: the password would be sent in the clear", "set tls=1, or plaintext=1"},
	{"FARSYNC_STORE=redis://:p@h run /x -- true", 78, "redis: the password would be sent in the clear", "set tls=1, or plaintext=1"},
	{"FARSYNC_STORE=postgres://u@h/db?password-file=f run /x -- true", 78, "postgres: the password would be sent in the clear", "set tls=1, or plaintext=1"},
	{"hold --store mysql://u:p@h/db /x", 78, "mysql: the password would be sent in the clear", "set tls=1, or plaintext=1"},
	{"FARSYNC_STORE= ETCDCTL_ENDPOINTS=h ETCDCTL_USER=u:p who", 78, "the password would be sent in the clear", "write https:// before the endpoints"},
	{"who --store zk://h?db=1", 78, "db is not known there", "there are ttl"},
	{"who --store redis://h/0", 78, "the prefix is a number", "write ?db="},
	{"who --store redis://h?db=-1", 78, "option db is not a number from 0 on", ""},
	{"who --store redis://h1,h2", 78, "several hosts are Sentinels", "?master=NAME"},
	{"who --store redis://h?replicas=x", 78, "option replicas is not a number from 0 on", ""},
	{"who --store postgres://h/db", 78, "no user", "write USER@ or USER:PASSWORD@"},
	{"who --store postgres://u@h", 78, "the name of the database", "HOST/DATABASE"},
	{"who --store postgres://u@h1,h2/db", 78, "several hosts", "write its host alone"},
	{"who --store postgres://u@h/db?sslmode=disable", 78, "an option is not known there", "there are ttl"},
	{"who --store postgres://u@h/db?migrate=", 78, "option migrate is", ""},
	{"who --store postgres://u@h/db?migrate=yes", 78, "option migrate is neither 1 nor 0", "write one of them"},
	{"who --store mysql://h", 78, "the name of the database", "HOST/DATABASE"},
	{"who --store mysql:user@tcp(h)/db", 78, "mysql:", "write // before the host"},
	{"FARSYNC_STORE=sqlite:locks.db run /x -- true", 78, "the file is relative, and another one in another directory", "write sqlite:/DIRECTORY/FILE"},
	{"FARSYNC_STORE=sqlite:DIR/locks.db~ run /x -- true", 78, "FARSYNC_STORE: the URL has white space at its end", "write it as %20"},
	{"FARSYNC_STORE=sqlite:DIR/locks.db\n run /x -- true", 78, "FARSYNC_STORE: the URL has white space at its end", "remove it"},
	{"FARSYNC_STORE='sqlite:DIR/locks.db' run /x -- true", 78, "FARSYNC_STORE: the URL has quotes at its ends", "remove them"},
	{"run --store sqlite:DIR/locks.db#locks /x -- true", 78, "stands for itself in no URL", "write it as %23"},
	{"run --store sqlite:DIR/locks.db&ttl=5s /x -- true", 78, "stands for itself in no URL", "write it as %26"},
	{"who --store etcd://h~", 78, "the URL has white space at its end", "remove it"},
	{"who --store sqlite:", 78, "no file", "write sqlite:FILE"},
	{"who --store sqlite://DIR/locks.db", 78, "a file has no host", "write sqlite:FILE"},
	{"run --store sqlite://locks.db /x -- true", 78, "a file has no host", "write sqlite:FILE"},
	{"who --store sqlite::memory:", 78, "is not a file that processes share", "write sqlite:FILE with its path"},
	{"who --store sqlite:DIR/x%.db", 78, "% that begins no escape", "write %25"},
	{"who --store sqlite:DIR/x.db?sync=5", 78, "option sync is neither 1 nor 0", "write one of them"},
	{"who --store sqlite:DIR", 78, "is a directory", "write the path of a file in it"},
	{"who --store sqlite:/dev/null", 78, "is a device or a pipe", "write the path of a file"},
	{"who --store sqlite:DIR/text", 78, "is not a database of SQLite", "write the path of a file"},
	{"who --store sqlite:DIR/none/locks.db", 78, "there is no directory", "make it first"},
	{"hold --store sqlite:DIR/none/locks.db /x", 78, "there is no directory", "make it first"},

	// Who looks makes no file
	{"who --store sqlite:DIR/loks.db", 78, "no such file", "write the path of the file that holds the locks"},
	{"who --store sqlite:DIR/loks.db /x", 78, "no such file", "which farsync run makes"},
	{"who --store sqlite:DIR/empty", 78, "has no tables of farsync", "write the path of the file that holds the locks"},
	{"watch --store sqlite:DIR/loks.db", 78, "no such file", "write the path of the file that holds the locks"},
	{"serve --store sqlite:DIR/loks.db --listen 127.0.0.1:0", 78, "no such file", "write the path of the file that holds the locks"},
	{"leader --store sqlite:DIR/loks.db /l", 78, "no such file", "write the path of the file that holds the locks"},
	{"ask --store sqlite:DIR/loks.db /x", 78, "no such file", "write the path of the file that holds the locks"},
	{"break --store sqlite:DIR/loks.db --token 5 --yes /x", 78, "no such file", "write the path of the file that holds the locks"},
	{"resize --store sqlite:DIR/loks.db --limit 3 /x 5", 78, "no such file", "write the path of the file that holds the locks"},
	{"doctor --store sqlite:DIR/loks.db", 1, "!!  session: sqlite:", "no such file"},

	// Files of the command itself
	{"man /proc/none", 74, "cannot be written", "no such file"},
	{"man DIR/text", 74, "cannot be written", "not a directory"},
}

// stock fills a folder for a call, and returns it.
func stock(t *testing.T) string {
	dir := memory(t) // whose name is short: it stands in URLs
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte("this is neither a program, nor a certificate, nor a database"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)) // nobody writes to it
	return dir
}

// tree lists a folder, and what is below it.
func tree(t *testing.T, dir string) (list []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	}))
	return list
}

// call runs a line in this process, and returns the exit code.
func call(t *testing.T, line, dir string, stdout *os.File) (code int, stderr string) {
	t.Helper()
	arguments := []string{}
	for word := range strings.SplitSeq(line, " ") {
		word = strings.ReplaceAll(strings.ReplaceAll(word, "DIR", dir), "~", " ")
		name, value, found := strings.Cut(word, "=")
		switch {
		case word == "":
		case found && len(arguments) == 0 && strings.ToUpper(name) == name:
			t.Setenv(name, value)
		default:
			arguments = append(arguments, word)
		}
	}
	var said buffer
	a := &app{stdout: &said, stderr: &said, die: func() {}}
	if stdout != nil {
		a.stdout = stdout
	}
	ended := make(chan int, 1)
	go func() { ended <- a.execute(arguments) }() // the test fails where it hangs
	select {
	case code = <-ended:
	case <-time.After(soon):
		require.Fail(t, "it hangs", "%s: %s", line, said.String())
	}
	return code, said.String()
}

// A silent server accepts and never answers.
func silentServer(t *testing.T) (address string, connections *atomic.Int64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections = new(atomic.Int64)
	done := make(chan struct{})
	go func() { // ends with the listener
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			defer conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-done
	})
	return listener.Addr().String(), connections
}

// TestMisuseIsAnsweredAtOnce: what is wrong with a call is said with what to write instead, under the exit code of
// docs/COMMAND.md, before anything is made or a service is asked. The store of these calls would answer none of them.
func TestMisuseIsAnsweredAtOnce(t *testing.T) {
	require.GreaterOrEqual(t, len(misused), 99)
	address, connections := silentServer(t)
	for _, row := range misused {
		t.Run(row.line, func(t *testing.T) {
			t.Setenv(location.Variable, "etcd://"+address)
			t.Setenv("ETCDCTL_ENDPOINTS", "")
			dir := stock(t)
			before, asked := tree(t, dir), connections.Load()
			code, said := call(t, row.line, dir, nil)
			require.Equal(t, row.code, code, said)
			require.Contains(t, said, row.wrong)
			require.Contains(t, said, row.instead)
			for _, of := range []string{"strconv", "parsing \"", "arg(s)", "unknown command", "unknown flag", "invalid argument", "flag needs", "goroutine"} {
				require.NotContains(t, said, of, "the words of a library")
			}
			require.Equal(t, before, tree(t, dir), "nothing was made")
			require.Equal(t, asked, connections.Load(), "the service was asked")
		})
	}
}

// TestOutputThatCannotBeWritten has its own exit code, whatever the verb shows.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		suite.NotHere(t, "/dev/full")
	}
	defer full.Close()
	url := file(t)
	l, err := location.Parse(url)
	require.NoError(t, err)
	store, closed, err := l.Open(t.Context(), farsync.Options{})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, store.Close())
		require.NoError(t, closed())
	}()
	_, err = farsync.NewMutex(store, "/x").Lock(t.Context())
	require.NoError(t, err)
	_, err = farsync.NewElection(store, "/l").Campaign(t.Context(), "leader")
	require.NoError(t, err)
	t.Setenv(location.Variable, url)
	for _, line := range []string{
		"who", "who --json", "who --tree", "who /x", "watch", "watch --json", "leader /l", "leader --json /l", "leader --watch /l",
		"ask --json /nobody", "resize --json --limit 3 /s 5", "doctor", "doctor --json", "version", "version --json", "man", "schema postgres",
		"schema mysql", "completion bash", "completion zsh", "completion fish", "completion powershell", "--help", "who --help", "help", "help run",
	} {
		t.Run(line, func(t *testing.T) {
			code, said := call(t, line, "", full)
			require.Equal(t, codeOutput, code, said)
			require.Contains(t, said, "what was to be shown cannot be written")
			require.Contains(t, said, "no space left on device")
		})
	}
}

// TestDeadServices: a service that refuses connections is one that does not answer, on every store.
func TestDeadServices(t *testing.T) {
	const address = "127.0.0.1:1" // a port that no program is given which asks for any
	for _, url := range []string{"etcd://" + address, "zk://" + address, "redis://" + address, "postgres://u@" + address + "/db", "mysql://" + address + "/db"} {
		for _, line := range []string{"who", "run /x -- true", "leader /l"} {
			if strings.HasPrefix(line, "run") {
				p := start(t, url, append([]string{"--dial-timeout", "0.3"}, strings.Fields(line)...)...)
				require.Equal(t, codeUnavailable, p.code(t), p.err.String())
				continue
			}
			code, said := call(t, "--dial-timeout 0.3 --store "+url+" "+line, "", nil)
			require.Equal(t, codeUnavailable, code, said)
			require.Contains(t, said, "does not answer", line)
		}
	}
}

// TestSilenceIsTold: a verb that has had no answer for a second says so, and for what it waits; with -q it says nothing
// but the end.
func TestSilenceIsTold(t *testing.T) {
	t.Parallel()
	address, _ := silentServer(t)
	for _, arguments := range [][]string{
		{"who"}, {"watch"}, {"leader", "/l"}, {"ask", "/x"}, {"doctor"}, {"resize", "--limit", "3", "/x", "5"}, {"serve", "--listen", "127.0.0.1:0"},
		{"run", "/x", "--", "true"}, {"elect", "/l", "--", "true"}, {"hold", "/x"},
	} {
		p := prepare("redis://"+address, "farsync", append([]string{"--dial-timeout", "300s"}, arguments...)...)
		_, err := p.StdinPipe() // hold waits for its end
		require.NoError(t, err)
		p.begin(t)
		until(t, "it says that it waits", func() bool {
			return strings.Contains(p.err.String(), "waiting for an answer of redis://"+address+", for 5m0s at most (--dial-timeout)")
		})
		require.Equal(t, 1, strings.Count(p.err.String(), "\n"), "%q: %s", arguments, p.err.String())
		require.NoError(t, p.Process.Kill())
		p.code(t)
	}
	p := start(t, "redis://"+address, "-q", "--dial-timeout", "1.5", "who")
	require.Equal(t, codeUnavailable, p.code(t))
	require.Equal(t, 1, strings.Count(p.err.String(), "\n"), p.err.String())
	require.NotContains(t, p.err.String(), "waiting for an answer")
}

// TestNobodyIsTold: who and ask say that there is nobody, unless they are to be quiet or their readers are programs.
func TestNobodyIsTold(t *testing.T) {
	url := file(t)
	t.Setenv(location.Variable, url)
	made := start(t, url, "run", "/y", "--", "true")
	require.Zero(t, made.code(t))
	for line, want := range map[string]string{
		"who":                   "farsync: nobody holds or waits for a lock\n",
		"who /x":                "farsync: nobody holds or waits for /x\n",
		"who /x/":               "farsync: nobody holds or waits for a lock below /x/\n",
		"who --tree /x":         "farsync: nobody holds or waits for /x\n",
		"who --waiting":         "farsync: nobody holds or waits for a lock of which --holder, --waiting and --longer are true\n",
		"who -q /x":             "",
		"who --json /x":         `{"schema":1,"locks":[]}` + "\n",
		"ask /nobody":           "farsync: nobody holds /nobody: no holder was asked\n",
		"ask -q /nobody":        "",
		"ask --json /nobody":    `{"schema":1,"path":"/nobody","given":false,"asked":0}` + "\n",
		"ask --wait 60 /nobody": "farsync: nobody holds /nobody: no holder was asked\n",
	} {
		code, said := call(t, line, "", nil)
		require.Equal(t, want, said, line)
		if strings.HasPrefix(line, "who") {
			require.Equal(t, codeNothing, code)
		} else {
			require.Zero(t, code)
		}
	}
}

// TestWarningsAreSaidOnce, though run is two processes.
func TestWarningsAreSaidOnce(t *testing.T) {
	t.Parallel()
	address, _ := silentServer(t)
	p := start(t, "", "-v", "--dial-timeout", "0.3", "--store", "redis://:secret@"+address, "run", "/x", "--", "true")
	require.Equal(t, codeUnavailable, p.code(t))
	require.Equal(t, 1, strings.Count(p.err.String(), "warning: others on this machine can read the password"), p.err.String())
	require.Equal(t, 1, strings.Count(p.err.String(), "store redis://"+address+", of --store"), p.err.String())
	require.NotContains(t, p.err.String(), "secret")
	for arguments, want := range map[string]string{
		"--ttl 50s --grace 40s": "farsync: --grace 40s is longer than a TTL of 50s allows: COMMAND is told to end 25s before the lock is lost\n",
		"--ttl 60s --grace 30s": "",
		"--ttl 60s --grace 0":   "",
	} {
		p := start(t, file(t), append(append([]string{"run"}, strings.Fields(arguments)...), "/x", "--", "true")...)
		require.Zero(t, p.code(t))
		require.Equal(t, want, p.err.String(), arguments)
	}
}

// slow reports whether doctor found that the service did not answer for seconds, or answers in seconds. A machine that is
// busy with other things may make it so, and then doctor is to say it.
func slow(line string) bool {
	return strings.HasPrefix(line, "!!  session: session suspended, cause no answer, ") ||
		strings.HasPrefix(line, "!!  session: session renewed late, ") ||
		strings.HasPrefix(line, "!!  speed: a free lock takes up to ") ||
		strings.HasPrefix(line, "!!  session: entry not removed: ") && strings.HasSuffix(line, ", cause no answer\n")
}

// TestNoProxyIsAsked: a proxy of the environment is another place that says where the service is, and would be sent what the
// service is sent.
func TestNoProxyIsAsked(t *testing.T) {
	t.Parallel()
	proxy, connections := silentServer(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(embedtest.Etcd(t).Endpoint(), "http://"))
	require.NoError(t, err)
	for _, verb := range [][]string{{"run", "-n", "/x", "--", "true"}, {"doctor"}} {
		// No proxy would be asked for 127.0.0.1.
		p := prepare("etcd://0.0.0.0:"+port+"?ttl=60s", "farsync", verb...)
		p.Env = append(p.Env, "HTTPS_PROXY=http://"+proxy, "HTTP_PROXY=http://"+proxy, "NO_PROXY=")
		p.begin(t)
		code := p.code(t)
		require.Zero(t, connections.Load(), "%s: %d %s", verb, code, p.err.String())
		for line := range strings.Lines(p.out.String()) {
			require.True(t, strings.HasPrefix(line, "ok  ") || slow(line), line) // of doctor
		}
		require.Equal(t, strings.Contains(p.out.String(), "!!  "), code == codeNothing, p.err.String())
	}
}

// TestHelpFitsATerminal: of 80 columns, and has the flags and the exit codes of its verb alone. A completion shows the
// words of the flags as they are, where quotes that a help takes for the name of a value would be seen.
func TestHelpFitsATerminal(t *testing.T) {
	root := (&app{}).root()
	lines := []string{""}
	for _, verb := range root.Commands() {
		lines = append(lines, verb.Name())
	}
	helps := map[string]string{}
	for _, verb := range lines {
		code, said := call(t, strings.TrimSpace(verb+" --help"), "", nil)
		require.Zero(t, code)
		for line := range strings.Lines(said) {
			require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 80, "%s: %s", verb, line)
		}
		require.NotContains(t, said, "`")
		require.Contains(t, said, "  64  ")
		helps[verb] = said
		_, again := call(t, strings.TrimSpace("help "+verb), "", nil)
		require.Equal(t, len(strings.Split(said, "\n")) > 10, len(strings.Split(again, "\n")) > 10)
	}
	codes := func(verb string) (list []string) {
		_, table, _ := strings.Cut(helps[verb], "\nExit codes:\n")
		for line := range strings.Lines(table) {
			if len(line) > 2 && line[2] != ' ' && strings.HasPrefix(line, "  ") {
				list = append(list, strings.Split(strings.TrimSpace(line), "  ")[0])
			}
		}
		return list
	}
	require.Equal(t, []string{"64", "74"}, codes("version"))
	require.Equal(t, []string{"0", "64", "74", "79"}, codes("held"))
	require.Equal(t, []string{"1", "64", "65", "69", "74", "77", "78"}, codes("who"))
	require.Equal(t, []string{"COMMAND's", "128+n", "64", "65", "69", "75", "77", "78", "79", "126, 127"}, codes("run"))
	require.NotContains(t, codes("elect"), "75", "it waits for the lead without end")
	for _, line := range []string{"__complete run --", "__complete serve --", "__complete resize --", "__complete break --"} {
		_, said := call(t, line, "", nil)
		require.Contains(t, said, "--store")
		require.NotContains(t, said, "`")
	}
	code, said := call(t, "", "", nil)
	require.Equal(t, codeUsage, code)
	for line := range strings.Lines(said) {
		require.LessOrEqual(t, len([]rune(line)), 81, line)
	}
}

// TestManualHasTheCodesOfAllVerbs: those of a verb are among those of the manual.
func TestManualHasTheCodesOfAllVerbs(t *testing.T) {
	page, err := os.ReadFile("../../docs/COMMAND.md")
	require.NoError(t, err)
	var all []string
	for _, m := range meanings {
		all = append(all, strings.Split(m.codes, ", ")...)
	}
	for verb, own := range ownMeanings {
		for _, m := range own {
			for code := range strings.SplitSeq(m.codes, ", ") {
				require.True(t, code == "0" || slices.Contains(all, code), "%s of %s", code, verb)
			}
		}
	}
	_, table, _ := strings.Cut(string(page), "\n## Exit codes\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, code := range all {
		require.Regexp(t, fmt.Sprintf(`(?m)^\| ([^|]*, )?%s(, [^|]*)? \|`, strings.ReplaceAll(code, "+", `\+`)), table)
	}
}
