#!/bin/sh
# Put a nats-server where we look for it. Idempotent: what is there and runs is left alone.
#
#   scripts/nats-server.sh newest FOLDER     Debian's unstable or Ubuntu's development suite; else what `packaged` finds
#   scripts/nats-server.sh packaged FOLDER   the package of this release of the system; else Homebrew's
#
# The package is taken from the mirror that this machine's own apt sources name, with sources and lists of our own, so
# nothing of the system changes and no root is needed. apt checks the signature of the suite against the distribution's
# keyring, and the package against the signed list.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

which=$1 folder=$2
runs() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1; }

# from_apt SUITE FOLDER: fetch nats-server of that suite into FOLDER; fails, having said why, where it cannot.
from_apt() (
    suite=$1
    have apt-get && have dpkg-deb || { say "No apt here"; exit 1; }
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/out"
    echo "deb [arch=$(dpkg --print-architecture) signed-by=$keyring] $mirror $suite $components" >"$work/sources.list"
    own_apt() {
        apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
            -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o Acquire::Languages=none \
            -o Acquire::Retries=3 -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false \
            -o Acquire::AllowWeakRepositories=false -o APT::Sandbox::User= "$@" </dev/null >>"$work/log" 2>&1
    }
    say "Fetching nats-server of the suite $suite"
    cd "$work/out" || exit 1
    if ! { own_apt update -o APT::Update::Error-Mode=any && own_apt download nats-server; }; then
        grep -E '^(E|W|Err)' "$work/log" | head -n 3 >&2
        exit 1
    fi
    dpkg-deb -x nats-server_*.deb . || exit 1
    runs usr/sbin/nats-server || { say "The nats-server of $suite does not run on this system"; exit 1; }
    cp usr/sbin/nats-server "$2/nats-server.new" && mv "$2/nats-server.new" "$2/nats-server"
)

# Where this machine's apt takes the distribution's own packages from.
find_mirror() {
    have apt-get && [ -r /etc/os-release ] || return 1
    . /etc/os-release
    case "$ID ${ID_LIKE:-}" in
    *ubuntu*)
        suites_newest=devel components="main universe" keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
        codename=${UBUNTU_CODENAME:-${VERSION_CODENAME:-}}
        ;;
    *debian*)
        suites_newest=unstable components=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        codename=${DEBIAN_CODENAME:-${VERSION_CODENAME:-unstable}}
        ;;
    *) return 1 ;;
    esac
    [ -r "$keyring" ] || keyring=${keyring%.gpg}.pgp
    [ -r "$keyring" ] || { say "The distribution's keyring is missing: ${keyring%.pgp}.gpg"; return 1; }
    targets=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages')
    # The entry of this release; a machine may also follow a suite by its role (stable, testing, unstable).
    mirror=$(echo "$targets" | awk -v name="$codename" '$1 == name && $2 == "main" { print $3; exit }')
    [ "$mirror" ] || mirror=$(echo "$targets" | awk '$1 !~ /[-\/]/ && $2 == "main" { print $3; exit }')
    [ "$mirror" ] || { say "This machine's apt sources name no mirror"; return 1; }
}

packaged() {
    for found in "$(command -v nats-server || true)" /usr/sbin/nats-server; do
        if [ "$found" ] && runs "$found"; then
            ln -sf "$found" "$folder/nats-server"
            return 0
        fi
    done
    if find_mirror && from_apt "$codename" "$folder"; then return 0; fi
    if have brew; then
        brew install --quiet nats-server </dev/null >&2 && ln -sf "$(brew --prefix)/bin/nats-server" "$folder/nats-server"
        return
    fi
    return 1
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if runs "$folder/nats-server"; then exit 0; fi
case $which in
newest) { find_mirror && from_apt "$suites_newest" "$folder"; } || packaged ;;
packaged) packaged ;;
*) fail "usage: scripts/nats-server.sh newest|packaged FOLDER" ;;
esac || fail "No nats-server: install nats-server 2.9.7 or later (2.15 for the demo's history), or set NATS_SERVER to one"
say "$("$folder/nats-server" --version) in $folder"
