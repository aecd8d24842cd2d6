#!/bin/sh
# Fetch the jars with which tests read an archive by Spark's own means, as docs/iceberg.md and docs/query.md name them,
# into FOLDER, in the layout of a Maven repository (1 GB). nats3 needs none of them. Idempotent; fails with one sentence where there is no Maven, or it has no jar.
#
#   scripts/spark-jars.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

mkdir -p "$1"
folder=$(cd "$1" && pwd)
# A coordinate stands in the page that says to use it, so that both name the same version.
coordinates=$(grep -ohE '`(org\.apache|org\.postgresql|software\.amazon)[a-z0-9.]*:[A-Za-z0-9._-]+:[0-9.]+`' \
    docs/iceberg.md docs/query.md | tr -d '`' | sort -u)
[ -n "$coordinates" ] || fail "docs/iceberg.md and docs/query.md name no jars"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for coordinate in $coordinates; do
    group=${coordinate%%:*} rest=${coordinate#*:}
    name=${rest%%:*} version=${rest#*:}
    [ ! -f "$folder/$(echo "$group" | tr . /)/$name/$version/$name-$version.jar" ] || continue
    have mvn || fail "Maven is missing: tests that need jars of Iceberg or Hadoop are left out"
    say "Fetching $coordinate"
    mvn -B -q dependency:get -Dtransitive=false -Dartifact="$coordinate" -Dmaven.repo.local="$folder" \
        </dev/null >"$log" 2>&1 || fail "$coordinate cannot be had: tests that need it are left out"
done
