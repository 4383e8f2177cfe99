#!/usr/bin/env bash
# Unpacks servers beside those of the system, in versions that its release of Debian does not have: scripts/server-versions.sh [name ...]
# Without a name it unpacks all of the table below. Nothing is installed, and no right is needed but to write the user's cache.
#
# A server comes with every library that it needs, libc among them, from another suite of the archive that this machine's own sources
# name. It runs by the loader in its folder, as embedtest.MySQL does it. apt checks each package against the archive's signature. A folder
# that is there and whose server runs is left as it is, so a second call asks the network for nothing. It appears under its name
# whole or not at all; of two calls at once, the second waits for the first.
#
# What is pinned is the series, such as 9.7, and the least version of it. The suite moves: where it has a later version of the series, a fresh
# machine gets that one, and the file VERSIONS in the folder says which, with the hash of each package. Where the suite has gone on to another
# series this fails, and says so: somebody has to run the tests on that one, and change the table.
set -euo pipefail

# name: also that of the folder; suite; package, and others beside it; the program; the versions that will do, as a pattern; the least of them
servers=(
	"mysql-9.7 unstable mysql-server-core,libfaketime usr/sbin/mysqld 9.7.* 9.7.4"
)

cache=${XDG_CACHE_HOME:-$HOME/.cache}/farsync/servers
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "server-versions: $*" >&2; }
fail() { say "FAILED: $*"; exit 1; }

# The loader of a folder runs its program with its libraries.
run() {
	local root=$1 program=$2 libraries loader
	shift 2
	for loader in "$root"/usr/lib/*/ld-linux*.so.*; do
		libraries=$(dirname "$loader")
		"$loader" --argv0 "$root/$program" --library-path "$libraries" "$root/$program" "$@"
		return
	done
	say "no loader in $root/usr/lib"
	return 1
}

# $(version folder program): what the server says, such as 9.7.4-2; nothing if it does not run.
version() { run "$1" "$2" --no-defaults --version 2>/dev/null | sed -n 's/.* Ver \([^ ]*\) .*/\1/p'; }

# The archives in which this machine finds its own release, one a line. Arguments are options of apt.
archives_of() {
	local release
	# shellcheck source=/dev/null
	release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016
	apt-get "$@" indextargets --format '$(CREATED_BY) $(RELEASE) $(COMPONENT) $(REPO_URI)' |
		awk -v release="$release" '$1 == "Packages" && ($2 == release || $2 == "stable") && $3 == "main" { print $4 }' | sort -u
}

# Makes apt's private folder in $1, whose only source is the suite $2, from the archives in which this machine finds its own release.
private_apt() {
	local at=$1 suite=$2 architecture archives
	architecture=$(dpkg --print-architecture)
	archives=$(archives_of) || fail "apt-get does not say what its sources are, see above"
	if [ -z "$archives" ]; then # apt knows its sources only once it has asked them
		mkdir -p "$at/own/partial"
		printf '#clear APT::Update::%s;\n' Post-Invoke Post-Invoke-Success >"$at/own.conf"
		local own=(-q -c "$at/own.conf" -o "Dir::State::lists=$at/own" -o APT::Sandbox::User=)
		apt-get "${own[@]}" update >&2 || fail "apt's own sources do not answer, see above"
		archives=$(archives_of "${own[@]}") || fail "apt-get does not say what its sources are, see above"
	fi
	[ -n "$archives" ] || fail "apt's sources name no archive of this release of Debian with the component main"
	mkdir -p "$at/lists/partial" "$at/archives/partial"
	: >"$at/status"
	local signed=
	[ ! -e "$keyring" ] || signed="[signed-by=$keyring] "
	while read -r archive; do echo "deb $signed$archive $suite main"; done <<<"$archives" >"$at/sources.list"
	# The machine's settings of how to reach an archive stay; what they do with the system after a download goes.
	cat >"$at/apt.conf" <<-END
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Post-Invoke;
		#clear APT::Architectures;
		#clear APT::Default-Release;
		APT::Architecture "$architecture";
		APT::Architectures { "$architecture"; };
		APT::Sandbox::User "";
		Acquire::Languages "none";
		Acquire::Retries "3";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Dir::State "$at";
		Dir::State::status "$at/status";
		Dir::Cache "$at";
		Dir::Etc::SourceList "$at/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::Etc::Preferences "/dev/null";
		Dir::Etc::PreferencesParts "/dev/null";
	END
}

# $(suits version series least)
suits() {
	# shellcheck disable=SC2053
	[[ $1 == $2 ]] && dpkg --compare-versions "$1" ge "$3"
}

# Unpacks one server of the table.
unpack() {
	local name=$1 suite=$2 packages=$3 program=$4 series=$5 least=$6 folder=$cache/$1 is offered tool package
	for tool in apt-get apt-cache dpkg dpkg-deb; do
		command -v "$tool" >/dev/null || fail "$name: there is no $tool here. This takes packages of Debian, on Debian;" \
			"elsewhere unpack a release of the server, and name its folder in FARSYNC_MYSQL"
	done
	is=$([ ! -d "$folder" ] || version "$folder" "$program" || true)
	if suits "$is" "$series" "$least"; then
		say "$name: $is is in $folder"
		return
	fi
	rm -rf "$cache/.$name".* # of calls that were killed
	work=$(mktemp -d "$cache/.$name.XXXXXX")
	private_apt "$work/apt" "$suite"
	local apt=(-q -c "$work/apt/apt.conf")
	say "$name: asking for $suite"
	apt-get "${apt[@]}" update >&2 || fail "$name: the archive has no suite $suite, as Ubuntu's has none, or does not answer; see above." \
		"Or unpack a release of the server, and name its folder in FARSYNC_MYSQL"
	offered=$(apt-cache "${apt[@]}" policy "${packages%%,*}" | awk '$1 == "Candidate:" { print $2 }')
	suits "${offered#*:}" "$series" "$least" || # what stands before a colon is Debian's
		fail "$name: $suite has version ${offered:-none} of ${packages%%,*}. The tests were run on $series, from $least on"
	say "$name: downloading $offered, and what it needs"
	# The names are words on purpose.
	# shellcheck disable=SC2086
	apt-get "${apt[@]}" -y install --download-only --no-install-recommends ${packages//,/ } >&2 || fail "$name: the download failed, see above"
	mkdir "$work/root"
	for package in "$work"/apt/archives/*.deb; do
		dpkg-deb -x "$package" "$work/root"
		# shellcheck disable=SC2016
		echo "$(dpkg-deb --show --showformat '${Package} ${Version} ${Architecture}' "$package") $(sha256sum <"$package" | cut -d' ' -f1)"
	done >"$work/VERSIONS"
	mv "$work/VERSIONS" "$work/root/VERSIONS"
	is=$(version "$work/root" "$program" || true)
	suits "$is" "$series" "$least" || fail "$name: what was unpacked does not run: ${program##*/} --version says '$is'"
	chmod 755 "$work/root"
	rm -rf "$folder"
	mv -T "$work/root" "$folder"
	rm -rf "$work"
	work=
	say "$name: $is is in $folder"
}

[ "$(uname)" = Linux ] || fail "this unpacks programs for Linux. Elsewhere name the folder of an installed MySQL in FARSYNC_MYSQL"
for asked in "$@"; do
	grep -q "^$asked " <(printf '%s\n' "${servers[@]}") || fail "no server $asked; there are: $(printf '%s\n' "${servers[@]%% *}" | xargs)"
done
mkdir -p "$cache"
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
exec 9>"$cache/.lock"
flock 9
for row in "${servers[@]}"; do
	read -r -a fields <<<"$row"
	if [ $# -eq 0 ] || [[ " $* " == *" ${fields[0]} "* ]]; then
		unpack "${fields[@]}"
	fi
done
