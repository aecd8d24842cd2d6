#!/bin/sh
# Make sure that Spark finds a Java from 17, and link its home as FOLDER/java. Idempotent.
#
#   scripts/java.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

# home_of JAVA: its home if it is a Java that Spark takes.
home_of() {
    said=$("$1" -XshowSettings:properties -version 2>&1 </dev/null) || return 1
    major=$(echo "$said" | sed -n 's/^ *java\.specification\.version = //p')
    case $major in 1[7-9] | [2-9][0-9]) ;; *) return 1 ;; esac
    echo "$said" | sed -n 's/^ *java\.home = //p'
}

find_java() {
    for java in "$folder/java/bin/java" "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java || true)" \
        /usr/lib/jvm/java-17-*/bin/java /usr/lib/jvm/java-21-*/bin/java \
        /opt/homebrew/opt/openjdk@*/bin/java /usr/local/opt/openjdk@*/bin/java; do
        # macOS has a /usr/bin/java that only says where to get one.
        if [ -x "$java" ] && home=$(home_of "$java") && [ "$home" ]; then
            ln -sfn "$home" "$folder/java"
            # make hands it on; a shell of one's own must be told where the search path does not lead to it.
            [ "$java" = "$(command -v java || true)" ] || [ "$java" = "${JAVA_HOME:-}/bin/java" ] ||
                say "Spark's Java, for commands without make: export JAVA_HOME=$home"
            return 0
        fi
    done
    return 1
}

mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [ -x "$folder/java/bin/java" ] || find_java; then exit 0; fi
if have apt-get && root_words >/dev/null; then
    # Which of them there is depends on the release: Debian 12 has 17, Debian 13 has 21, Ubuntu has both.
    if apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless; then find_java && exit 0; fi
elif have brew; then
    say "Installing openjdk@17 with Homebrew"
    brew install --quiet openjdk@17 </dev/null >&2 && find_java && exit 0
elif have apt-get; then
    fail "Java is missing: sudo apt-get install openjdk-17-jre-headless (or openjdk-21-jre-headless)"
fi
fail "Java is missing: install Java 17 or later, or set JAVA_HOME to one"
