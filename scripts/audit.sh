#!/bin/sh
# Ask for known holes of the libraries in requirements.lock: scripts/audit.sh PYTHON. Status 1 if there are some.
# Without pip-audit, or the database of holes that it asks (OSV), it says so in a line and ends with 0.
set -u
python=$1
tools=.nats3/audit

skip() { echo "pip-audit: skipped, $1"; exit 0; }

# In an environment of its own: what it needs must not decide what the project has.
if ! [ -x "$tools/bin/pip-audit" ]; then
    rm -rf "$tools"
    { "$python" -m venv "$tools" && "$tools/bin/python" -m pip install -q --disable-pip-version-check pip-audit; } \
        >/dev/null 2>&1 || { rm -rf "$tools"; skip "it cannot be installed"; }
fi
log=$(mktemp)
trap 'rm -f "$log" "$log.json"' EXIT
# The lock has every library with its hash, so nothing is resolved or installed. The first question that is not
# answered ends it.
"$tools/bin/pip-audit" --vulnerability-service osv --disable-pip --require-hashes -r requirements.lock \
    --progress-spinner off --timeout 5 -f json -o "$log.json" 2>"$log"
[ -s "$log.json" ] || skip "its database does not answer"
# One that the database does not know is not one without holes.
"$python" - "$log.json" <<'EOF'
import json, sys
with open(sys.argv[1]) as file:
    asked = json.load(file)["dependencies"]
holes = [(d["name"], d["version"], v["id"], v["fix_versions"]) for d in asked for v in d.get("vulns", [])]
for name, version, hole, fixes in holes:
    print(f"pip-audit: {name} {version}: {hole}, fixed in {', '.join(fixes) or 'no release yet'}")
unknown = sum("skip_reason" in d for d in asked)
print(f"pip-audit: {len(asked) - unknown} libraries asked, {len(holes)} known holes, {unknown} unknown to the database")
sys.exit(bool(holes))
EOF
