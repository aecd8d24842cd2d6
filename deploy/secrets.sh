#!/bin/sh
# Make the secrets of compose.yaml: a file each in deploy/secrets/, with random passwords and the hash of a token of the
# API. The token itself is printed once and kept nowhere.
#
#     deploy/secrets.sh
set -eu
cd "$(dirname "$0")"
# 48 hexadecimal digits after a letter: a number would be one in the configuration of nats-server.
random() { printf 's%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; }
if [ -e secrets ] && [ ! -e secrets/spark_token ]; then
    umask 022
    random >secrets/spark_token
    echo "deploy/secrets has the token of Spark Connect now; the others stay"
    exit
fi
if [ -e secrets ]; then
    echo "deploy/secrets is there already: remove it to have new secrets (the servers keep those they were started with)" >&2
    exit 1
fi
# No other user of this host may enter the folder. The files in it can be read by all: Compose mounts each into its
# containers as it is, and their users are others.
umask 077
mkdir secrets.new
umask 022
hash() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1; }
# As nats3 token create makes them: scanners of repositories know them by how they begin.
token=nats3_$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
postgres=$(random)
random >secrets.new/nats_password
random >secrets.new/s3_secret_key
random >secrets.new/spark_token
printf %s "$postgres" >secrets.new/postgres_password
printf %s "postgresql://nats3:$postgres@postgres:5432/nats3" >secrets.new/postgres_url
printf %s "$(printf %s "$token" | hash)" >secrets.new/api_tokens
mv secrets.new secrets
echo "deploy/secrets has them. The token of the API, which is kept nowhere: $token"
