"""Keeps compiled modules for all processes that tests start, also where the environment wants none beside sources.

A plugin that pytest loads before its others (pyproject.toml). Without compiled modules each of hundreds of Python
processes compiles what it imports: Dagster alone takes seconds. The Makefile says the same to pytest's own process.
"""

import os
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / ".nats3" / "bytecode"

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_FOLDER))
