# Sourced by the other scripts: how they speak, and how they use apt.

say() { printf '%s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# The words that run a command as root without asking; fails where that cannot be.
root_words() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif have sudo && sudo -n true </dev/null 2>/dev/null; then
        echo sudo -n env
    else
        return 1
    fi
}

# apt_install PACKAGE...: install them, the lists updated first when they do not know the packages. Quiet unless it fails.
apt_install() {
    as_root=$(root_words) || return 1
    have apt-get || return 1
    log=$(mktemp)
    say "Installing $* with apt"
    apt_try() {
        $as_root DEBIAN_FRONTEND=noninteractive apt-get "$@" </dev/null >>"$log" 2>&1
    }
    if apt_try install -y --no-install-recommends "$@" ||
        { apt_try update && apt_try install -y --no-install-recommends "$@"; }; then
        rm -f "$log"
        return 0
    fi
    tail -n 3 "$log" >&2
    rm -f "$log"
    return 1
}
