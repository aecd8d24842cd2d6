#!/bin/sh
# Make the image debian:bookworm-slim where no registry has it: by mmdebstrap, of the packages of this machine's own apt
# sources. The image has this machine's settings of apt and pip and its certificates, so that a build in it reaches
# what this machine reaches. It is for tests: settings may hold passwords, and the image is made by you.
#
#   scripts/debian-base.sh podman|docker
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

engine=$1
name=docker.io/library/debian:bookworm-slim
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
have apt-get || fail "debian:bookworm-slim is missing: no registry has it, and without apt it cannot be made"
have mmdebstrap || apt_install mmdebstrap || fail "mmdebstrap is missing: install it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=$work/files
mkdir -p "$files/etc/apt/apt.conf.d" "$files/usr/local/share/ca-certificates"

# Debian 12's own entries of this machine's sources. What others of its sources have is not needed, nor their keys.
apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v keyring="$keyring" '
        $1 ~ /^(bookworm|bookworm-updates|bookworm-security)$/ && $2 == "main" && !seen[$0]++ {
            print "deb [signed-by=" keyring "] " $3 " " $1 " " $2
        }' >"$work/sources.list"
grep -q ' bookworm main$' "$work/sources.list" ||
    fail "debian:bookworm-slim is missing: no registry has it, and this machine's apt sources name no mirror of Debian 12"

# How apt reaches them: proxies and the like.
apt-config dump | grep -E '^Acquire::(https?|ftp|Check|Retries|Max-|ForceIPv)' >"$files/etc/apt/apt.conf.d/90machine" || true
# As in Debian's own image: apt keeps no packages that it has installed, nor lists made of lists.
cat >"$files/etc/apt/apt.conf.d/docker-clean" <<'END'
APT::Keep-Downloaded-Packages "false";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb /var/cache/apt/*.bin || true"; };
END
# pip's settings, those of its variables too, but for folders of this machine and its certificates.
{
    echo "[global]"
    echo "cert = /etc/ssl/certs/ca-certificates.crt"
    python3 -m pip config list 2>/dev/null | sed -n "s/^[a-z:]*\.\(index-url\|extra-index-url\|trusted-host\|proxy\)='\(.*\)'$/\1 = \2/p"
} >"$files/etc/pip.conf"
# Installing ca-certificates writes the bundle again, with what is in this folder.
for bundle in "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}" /etc/ssl/certs/ca-certificates.crt; do
    [ -r "$bundle" ] || continue
    cp "$bundle" "$files/usr/local/share/ca-certificates/machine.crt"
    break
done

say "Making debian:bookworm-slim of this machine's apt sources"
# As in Debian's own slim image: no manuals and translations, but the folders of manuals, where packages make links.
# Its /usr is merged from the start: the package usrmerge, which merges it later, brings Perl.
# apt's user may not be able to write to /dev/null of a machine that is itself a container: no sandbox for it.
if ! mmdebstrap --quiet --variant=minbase --aptopt='APT::Sandbox::User "root"' \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include=usr-is-merged \
    --aptopt="$files/etc/apt/apt.conf.d/90machine" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --customize-hook='for n in 1 2 3 4 5 6 7 8; do mkdir -p "$1/usr/share/man/man$n"; done' \
    --customize-hook="copy-in $files/etc $files/usr /" --customize-hook='rm -f "$1"/var/cache/apt/*.bin' \
    bookworm "$work/base.tar" "$work/sources.list" >"$work/log" 2>&1; then
    tail -n 5 "$work/log" >&2
    fail "debian:bookworm-slim was not made"
fi
"$engine" import --quiet --change 'CMD ["bash"]' --change 'LABEL made-by=scripts/debian-base.sh' "$work/base.tar" "$name" >/dev/null
