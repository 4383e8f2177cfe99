#!/usr/bin/env bash
# Sees to it that the tests find their servers: a ZooKeeper that java can run (etcd comes with the module), a Redis, the databases
# that fencing tokens are tried on, the foreign clients that share a queue with ours in tests, Curator, kazoo and etcdctl, and the browser
# that the live page is shown to, with axe-core, which looks at it. Where apt is there, it installs what is missing, libfaketime for
# the clocks of servers as well. Exits non-zero if one of the servers cannot be run afterwards.
set -euo pipefail

say() { echo "servers: $*" >&2; }

have_jdk() { command -v java >/dev/null && command -v javac >/dev/null; }

have_java() { command -v java >/dev/null || [ -x "${JAVA_HOME:-/nonexistent}/bin/java" ]; }

have_zookeeper() {
	if [ -n "${ZOOKEEPER_HOME:-}" ]; then
		compgen -G "$ZOOKEEPER_HOME/lib/zookeeper-*.jar" >/dev/null
	else
		[ -e /usr/share/java/zookeeper.jar ] && [ -e /usr/share/java/slf4j-simple.jar ]
	fi
}

have_redis() { command -v redis-server >/dev/null; }

have_faketime() { compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null; }

have_curator() { [ -e /usr/share/java/curator-recipes.jar ]; }

# Debian's own python, for that is the one that the package is for.
have_kazoo() { [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import kazoo' 2>/dev/null; }

have_postgres() { { command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb'; } >/dev/null && command -v psql >/dev/null; }

# Debian keeps it where only root looks.
have_pgbouncer() { command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; }

have_mariadb() {
	{ command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ]; } &&
		command -v mariadb-install-db >/dev/null && command -v mariadb >/dev/null
}

have_etcdctl() { command -v etcdctl >/dev/null; }

have_chromium() { command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null

# The test says which version, and what its hash is.
axe=axe-core-4.14.1
axe_folder=${XDG_CACHE_HOME:-$HOME/.cache}/farsync
[ "$(uname)" != Darwin ] || axe_folder=$HOME/Library/Caches/farsync

have_axe() { [ -e "$axe_folder/$axe.tgz" ]; }

# npm asks its registry for the package by itself, and installs nothing.
get_axe() {
	command -v npm >/dev/null || { say "no npm, which $axe comes with"; return 1; }
	mkdir -p "$axe_folder" && (cd "$axe_folder" && npm pack --silent "axe-core@${axe##*-}" >/dev/null)
}

missing() {
	have_jdk || echo default-jdk-headless
	have_zookeeper || echo zookeeper
	have_postgres || echo postgresql
	have_pgbouncer || echo pgbouncer
	have_mariadb || echo mariadb-server
	have_redis || echo redis-server
	have_faketime || echo libfaketime
	have_curator || echo libcurator-recipes-java
	have_kazoo || echo python3-kazoo
	have_etcdctl || echo etcd-client
	have_chromium || echo chromium
	have_axe || command -v npm >/dev/null || echo npm
}

apt() {
	local run=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || { say "not root, and no sudo"; return 1; }
		run=(sudo)
		[ -t 0 ] || run=(sudo -n)
	fi
	# The list of packages on a fresh machine is empty or old.
	"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2
}

if [ -n "${ZOOKEEPER_HOME:-}" ] && ! have_zookeeper; then
	say "FAILED: ZOOKEEPER_HOME is set, but there is no zookeeper-*.jar in $ZOOKEEPER_HOME/lib."
	exit 1
fi
packages=$(missing | xargs)
if [ -z "$packages" ]; then
	have_axe || get_axe || say "still missing: $axe. Tests that need it will say so."
	exit 0
fi
if command -v apt-get >/dev/null; then
	say "installing $packages"
	# What counts is what is there afterwards. The names are words on purpose.
	# shellcheck disable=SC2086
	{ apt update && apt install -y --no-install-recommends $packages; } || say "apt-get failed"
fi

if ! have_java; then
	say "FAILED: no java found. Install a JDK, 17 or newer."
	exit 1
fi
if ! have_zookeeper; then
	say "FAILED: no ZooKeeper server found. Install Debian's zookeeper package, or set ZOOKEEPER_HOME to a release."
	exit 1
fi
for database in postgres mariadb; do
	if ! "have_$database"; then
		say "FAILED: no $database server found. Install Debian's postgresql and mariadb-server packages."
		exit 1
	fi
done
if ! have_pgbouncer; then
	say "FAILED: no PgBouncer found. Install Debian's pgbouncer package."
	exit 1
fi
if ! have_redis; then
	say "FAILED: no Redis server found. Install Debian's redis-server package, or put redis-server into the PATH."
	exit 1
fi
packages=$(missing | xargs)
if [ -n "$packages" ]; then
	say "still missing: $packages. Tests that need them will say so."
fi
have_axe || get_axe || say "still missing: $axe. Tests that need it will say so."
