#!/bin/sh
# Make deploy/.env for compose.yaml: random passwords, and the hash of a token of the API. The token itself is printed
# once and kept nowhere.
#
#     deploy/secrets.sh
set -eu
cd "$(dirname "$0")"
umask 077
if [ -e .env ]; then
    echo "deploy/.env is there already: remove it to have new secrets (the servers keep those they were started with)" >&2
    exit 1
fi
# 48 hexadecimal digits after a letter: a number would be one in the configuration of nats-server.
random() { printf 's%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; }
hash() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1; }
# As nats3 token create makes them: scanners of repositories know them by how they begin.
token=nats3_$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
postgres=$(random)
cat >.env <<END
NATS_PASSWORD=$(random)
POSTGRES_PASSWORD=$postgres
NATS3_POSTGRES_URL=postgresql://nats3:$postgres@postgres:5432/nats3
AWS_SECRET_ACCESS_KEY=$(random)
NATS3_API_TOKENS=$(printf %s "$token" | hash)
END
echo "deploy/.env is written. The token of the API, which is kept nowhere: $token"
