#!/bin/sh
# Make sure that the test of connection poolers finds PgBouncer. Idempotent.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

have pgbouncer || [ -x /usr/sbin/pgbouncer ] || apt_install pgbouncer || fail "No PgBouncer: sudo apt-get install pgbouncer"
