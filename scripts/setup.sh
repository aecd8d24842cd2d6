#!/bin/sh
# Everything that the other make targets need: .venv with the pinned dependencies and the project, nats-server, Java.
#
#   scripts/setup.sh demo|user|all      what the demo runs on; and what makes each later run start sooner; and what only
#                                       tests and tools need
#
# Idempotent, and quick when nothing changed. Nothing is asked for, and nothing is installed outside this folder but
# system packages, and those only where that works without a password.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

what=${1:-all}
case $what in
demo | user) lock=requirements.user.lock ;;
all) lock=requirements.lock ;;
*) fail "usage: scripts/setup.sh demo|user|all" ;;
esac
python=.venv/bin/python
fits='import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'

# find_python: prints an interpreter that fits. The one that `python3` names comes first.
find_python() {
    for name in python3 python3.13 python3.12 python3.11 /opt/homebrew/bin/python3.13 /opt/homebrew/bin/python3.12; do
        # Running it is the only proof: a version manager's shim exists for versions that are not there.
        if "$name" -c "$fits" </dev/null >/dev/null 2>&1; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

make_venv() {
    if ! found=$(find_python); then
        if have apt-get && root_words >/dev/null; then
            { apt_install python3-venv && find_python >/dev/null; } || apt_install python3.12-venv ||
                apt_install python3.11-venv || true
        elif have brew; then
            brew install --quiet python@3.13 </dev/null >&2 || true
        fi
        found=$(find_python) || fail "Python is missing: install Python 3.11, 3.12 or 3.13"
    fi
    # Debian keeps venv's part of the standard library in a package of its own.
    if ! "$found" -c 'import ensurepip, venv' 2>/dev/null; then
        package=$("$found" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')
        apt_install "$package" || fail "Python's venv is missing: sudo apt-get install $package"
    fi
    say "Making .venv with $("$found" --version)"
    rm -rf .venv
    "$found" -m venv .venv
}

"$python" -c "$fits" 2>/dev/null && [ -x .venv/bin/pip ] || make_venv

pip_install() {
    "$python" -m pip install --disable-pip-version-check --no-input "$@"
}

# stamp FILE...: what the environment has; differs when a file changed, or the folder was moved.
stamp() { { pwd; cat "$@"; } | cksum; }
installed() { [ "$(cat ".venv/.$1" 2>/dev/null)" = "$2" ]; }

# install_with_uv LOCK: fails, having said nothing, where uv is not here and cannot be installed, or fails.
install_with_uv() {
    uv=$(command -v uv || echo .venv/bin/uv)
    if ! [ -x "$uv" ]; then
        scripts/pinned.sh "$1" uv >.venv/.first.txt
        pip_install --quiet --require-hashes --no-deps -r .venv/.first.txt 2>/dev/null || return 1
    fi
    # It does not read pip's configuration.
    for pair in index-url=UV_DEFAULT_INDEX extra-index-url=UV_INDEX find-links=UV_FIND_LINKS cert=SSL_CERT_FILE; do
        for level in global user site :env:; do
            value=$("$python" -m pip config get "$level.${pair%%=*}" 2>/dev/null | tr '\n' ' ' | sed 's/ *$//') || true
            if [ "$value" ]; then export "${pair#*=}=$value"; fi
        done
    done
    export UV_INDEX_STRATEGY=unsafe-best-match # as pip does: the best version of all its indexes
    if [ "${PIP_NO_INDEX:-}" ]; then export UV_NO_INDEX=1; fi
    # PySpark comes as source only. Built beside the pinned setuptools, it fetches no other one.
    scripts/pinned.sh "$1" setuptools >.venv/.first.txt
    "$uv" pip install --python "$python" --quiet --require-hashes --no-deps -r .venv/.first.txt 2>/dev/null &&
        "$uv" pip install --python "$python" --quiet --require-hashes --no-build-isolation-package pyspark -r "$1" \
            2>/dev/null
}

# wait_for COMMAND...: runs it, and says now and then that it goes on: uv writes nothing until all is there.
wait_for() {
    "$@" &
    running=$! seconds=0
    while kill -0 "$running" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        [ $((seconds % 20)) != 0 ] || say "  still fetching and unpacking, for $seconds s: PySpark alone has 450 MB"
    done
    wait "$running"
}

# install_with_pip LOCK
install_with_pip() {
    total=$(grep -c '^[a-z0-9].*==' "$1")
    # A line of pip's for each package becomes one that moves; its errors come by standard error. A pipe has only the
    # last command's status, so pip leaves its own in a file.
    rm -f .venv/.failed
    {
        for name in setuptools pyspark; do
            scripts/pinned.sh "$1" "$name" >.venv/.first.txt
            pip_install --require-hashes --no-deps --no-build-isolation --use-pep517 -r .venv/.first.txt
        done &&
            pip_install --require-hashes -r "$1" || touch .venv/.failed
    } | awk -v total="$total" -v live="$([ -t 2 ] && echo 1)" '
            live && /^(Collecting|Requirement already|Ignoring)/ { printf "\r  %d of %d\033[K", ++n, total }
            live && /^Installing/ { printf "\r  unpacking %d\033[K", n }
            END { if (live) printf "\r\033[K" }' >&2
    [ ! -e .venv/.failed ] || fail "The dependencies were not installed: see pip's words above"
}

# Fetched while pip unpacks.
fetching=
if [ -z "${NATS_SERVER:-}" ]; then
    scripts/nats-server.sh newest .nats3/bin &
    fetching=$!
fi
want=$(stamp "$lock")
# What tests need has all that a user needs.
if ! installed requirements "$want" && ! installed requirements "$(stamp requirements.lock)"; then
    say "Installing the pinned dependencies of $lock into .venv"
    wait_for install_with_uv "$lock" || install_with_pip "$lock"
    echo "$want" >.venv/.requirements
fi
want=$(stamp pyproject.toml nats3_dagster/version.py)
if ! installed project "$want" || [ ! -x .venv/bin/nats3 ]; then
    # Its build backend is among the pinned dependencies: nothing is fetched for this step.
    pip_install --quiet --no-deps --no-build-isolation --no-index --editable .
    echo "$want" >.venv/.project
fi
if [ "$fetching" ]; then wait "$fetching"; fi
scripts/java.sh .nats3
# With an archive of Spark's classes a JVM starts in half the time; without one it does what it always did. To make it
# takes 24 s, which the two JVMs of a demo do not bring in.
[ "$what" != demo ] || exit 0
JAVA_HOME=$(cd .nats3/java && pwd -P)
export JAVA_HOME
"$python" -m nats3_dagster.pipeline.classes || true
