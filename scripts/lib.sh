# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts in this directory: the cache, its stamps, and packages
# of other Debian suites, which are unpacked into the cache and never installed.

set -Eeuo pipefail
trap 'say "stopped in line $LINENO of ${BASH_SOURCE[0]##*/}: $BASH_COMMAND"' ERR

CACHE="${PARACUDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/paracuda}"
SCRIPTS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$CACHE"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# begin NAME VERSION locks the part NAME of the cache for this process. It ends the script if a
# stamp says that this version of the part is complete.
begin() {
	PART="$CACHE/$1" STAMP="$CACHE/.stamps/$1" VERSION="$2"
	mkdir -p "$CACHE/.stamps"
	exec 9>"$CACHE/.stamps/$1.lock"
	flock -n 9 || { say "another process is making $1, waiting for it"; flock 9; }
	if [ "$(cat "$STAMP" 2>/dev/null)" = "$VERSION" ]; then
		say "$1 is complete"
		exit 0
	fi
	rm -f "$STAMP"
	rm -rf "$PART" "$PART.tmp"
	mkdir -p "$PART.tmp"
}

# finish puts the part that was made in $PART.tmp in its place.
finish() {
	[ ! -d "$PART.tmp" ] || mv "$PART.tmp" "$PART"
	echo "$VERSION" >"$STAMP"
	say "made $PART ($(du -sh "$PART" | cut -f1), ${SECONDS} s)"
}

# mirror prints the archive that this machine's own apt uses for its release of Debian: all suites
# are there. apt may have read no lists yet.
mirror() {
	if [ -n "${PARACUDA_MIRROR:-}" ]; then
		echo "$PARACUDA_MIRROR"
		return
	fi
	local uri
	local suites='bookworm\|trixie\|forky\|sid\|\(old\|un\|\)stable\|testing'
	uri="$(env -u APT_CONFIG apt-get update --print-uris |
		sed -n "s,^'\(.*\)/dists/\($suites\)/InRelease'.*,\1,p" | sed -n 1p)"
	[ -n "$uri" ] || die "apt has no source of Debian's: set PARACUDA_MIRROR to a Debian mirror"
	echo "$uri"
}

# suite NAME COMPONENTS... has the functions below use that Debian suite, with an apt state of its
# own, in which nothing is installed.
suite() {
	local name="$1" root="$CACHE/apt/$1"
	shift
	mkdir -p "$root"/{state/lists/partial,cache/archives/partial}
	: >"$root/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $name $*" \
		>"$root/sources.list"
	cat >"$root/apt.conf" <<-CONF
		Dir::State "$root/state";
		Dir::State::status "$root/status";
		Dir::Cache "$root/cache";
		Dir::Etc::sourcelist "$root/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Acquire::Check-Valid-Until "false";
		Acquire::Languages "none";
		Acquire::Retries "3";
		APT::Sandbox::User "root";
		APT::Install-Recommends "false";
	CONF
	export APT_CONFIG="$root/apt.conf"
	say "reading the package lists of $name"
	(flock 8; apt-get -qq update) 8>"$root/lock"
	APT_ROOT="$root"
}

# fetch DIR PACKAGE... downloads only these packages into DIR.
fetch() {
	local dir="$1"
	shift
	mkdir -p "$dir"
	say "downloading $*"
	(cd "$dir" && apt-get -qq download "$@")
}

# fetch_closure DIR PACKAGE... downloads the packages and all they depend on.
fetch_closure() {
	local dir="$1"
	shift
	mkdir -p "$dir/partial"
	say "downloading $* and what they depend on"
	apt-get -qq -y -o Dir::Cache::archives="$dir" --download-only install "$@" >&2
}

# unpack FROM TO [PATTERN...] unpacks the packages in FROM, except paths that match a pattern, and
# removes the packages.
unpack() {
	local from="$1" to="$2" deb
	shift 2
	mkdir -p "$to"
	for deb in "$from"/*.deb; do
		say "unpacking ${deb##*/}"
		if [ "$(stat -c %s "$deb")" -gt 200000000 ]; then
			"$SCRIPTS/unpack-large" "$deb" "$to" "$@"
		else
			dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$to" "${@/#/--exclude=}"
		fi
		rm "$deb"
	done
	rm -rf "$from"
}

# wrap FILE PROGRAM [OPTION...] writes a script that runs a program of the tree with the tree's own
# loader and libraries. The tree's /lib64 may be a link to the system's.
wrap() {
	local file="$1" program="$2"
	shift 2
	cat >"$file" <<-WRAPPER
		#!/bin/sh
		root="\$(dirname "\$(readlink -f "\$0")")/root"
		lib="\$root/usr/lib/x86_64-linux-gnu"
		export QEMU_MODULE_DIR="\$lib/qemu"
		loader="\$lib/ld-linux-x86-64.so.2"
		[ -e "\$loader" ] || loader="\$root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
		exec "\$loader" \\
			--argv0 "\$0" --library-path "\$lib:\$root/lib/x86_64-linux-gnu" \\
			"\$root/usr/$program" $* "\$@"
	WRAPPER
	chmod +x "$file"
}
