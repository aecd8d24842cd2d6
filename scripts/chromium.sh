#!/bin/sh
# Make sure that the browser tests find a Chromium, and link it as FOLDER/chromium. Idempotent.
#
#   scripts/chromium.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

find_chromium() {
    for browser in "${CHROMIUM:-}" "$folder/chromium" "$(command -v chromium || true)" \
        "$(command -v chromium-browser || true)" "$(command -v google-chrome || true)" \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
        /Applications/Chromium.app/Contents/MacOS/Chromium; do
        # Running it is the only proof: Ubuntu's chromium-browser may be a script that only says where to get one.
        if [ -x "$browser" ] && "$browser" --version </dev/null >/dev/null 2>&1; then
            [ "$browser" = "$folder/chromium" ] || ln -sfn "$browser" "$folder/chromium"
            return 0
        fi
    done
    return 1
}

mkdir -p "$1"
folder=$(cd "$1" && pwd)
if find_chromium; then exit 0; fi
if have apt-get && root_words >/dev/null; then
    apt_install chromium && find_chromium && exit 0
    fail "No browser: install Chromium or Chrome, or set CHROMIUM to one"
elif have apt-get; then
    fail "No browser: sudo apt-get install chromium, or set CHROMIUM to one"
fi
fail "No browser: install Chromium or Chrome, or set CHROMIUM to one"
