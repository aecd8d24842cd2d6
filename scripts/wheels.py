"""Write docs/wheels.md: the pinned packages that have no wheel for some platform and Python, as the index lists them.

    .venv/bin/python scripts/wheels.py

It asks the package index, by uv, for the files of the packages that requirements.user.lock pins, and for no others.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.user.lock"
PAGE = ROOT / "docs" / "wheels.md"
PYTHONS = [(3, 11), (3, 12), (3, 13), (3, 14)]
# The C library of the oldest system that counts: Debian 12 has 2.36. macOS 14 is the oldest that Apple still mends.
GLIBC, MACOS = (2, 36), (14, 0)
MACHINES = {
    "Linux x86_64": ("linux", "x86_64"),
    "Linux aarch64": ("linux", "aarch64"),
    "macOS arm64": ("darwin", "arm64"),
    "macOS x86_64": ("darwin", "x86_64"),
}


def platforms(system: str, machine: str) -> list[str]:
    if system == "darwin":
        return list(mac_platforms(MACOS, machine))
    old = {(2, 5): "manylinux1", (2, 12): "manylinux2010", (2, 17): "manylinux2014"}
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC[1], 4, -1)]
    return [*names, *(f"{name}_{machine}" for name in old.values()), f"linux_{machine}"]


def tags(python: tuple[int, int], system: str, machine: str) -> set[Tag]:
    names = platforms(system, machine)
    return {*cpython_tags(python, platforms=names), *compatible_tags(python, f"cp{python[0]}{python[1]}", names)}


def packages() -> list[dict[str, Any]]:
    """The pinned packages, each with its files."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "pylock.toml")
        uv = [str(Path(sys.executable).parent / "uv"), "pip", "compile", str(LOCK), "--quiet", "--universal"]
        subprocess.run([*uv, "--no-deps", "--python-version", "3.11", "--format", "pylock.toml", "-o", out], check=True)
        return tomllib.loads(out.read_text())["packages"]


def wheel_tags(package: dict[str, Any]) -> set[Tag]:
    names = [wheel.get("name") or wheel["url"].rpartition("/")[2] for wheel in package.get("wheels", ())]
    return {tag for name in names for tag in parse_wheel_filename(name)[3]}


def is_needed(package: dict[str, Any], python: tuple[int, int], system: str, machine: str) -> bool:
    if not (marker := package.get("marker")):
        return True
    version = f"{python[0]}.{python[1]}"
    environment = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin"}[system],
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "os_name": "posix",
    }
    return Marker(marker).evaluate(environment)


def table(found: Collection[dict[str, Any]]) -> list[str]:
    pythons = [f"{major}.{minor}" for major, minor in PYTHONS]
    lines = [f"| | {' | '.join(pythons)} |", "|---" * (len(PYTHONS) + 1) + "|"]
    for name, at in MACHINES.items():
        cells: list[str] = []
        for python in PYTHONS:
            fitting = tags(python, *at)
            missing = [
                f"{package['name']} {package['version']}"
                for package in found
                if is_needed(package, python, *at) and not wheel_tags(package) & fitting
            ]
            cells.append(", ".join(missing) or "all")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    found = packages()
    text = PAGE.read_text()
    head, _, rest = text.partition("<!-- table -->\n")
    tail = rest.partition("<!-- end -->\n")[2]
    made = "\n".join([f"Of {len(found)} packages, those that come as source only:", "", *table(found)])
    PAGE.write_text(f"{head}<!-- table -->\n{made}\n<!-- end -->\n{tail}")


if __name__ == "__main__":
    main()
