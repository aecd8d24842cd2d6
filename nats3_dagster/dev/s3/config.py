"""The configuration of the four Swift servers of the embedded S3 endpoint.

Invariant: everything is under the given folder, nothing in /etc/swift. Only the owner can read the files, because one
of them has the secret key.
"""

import gzip
import json
import os
import pwd
import struct
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from nats3_dagster.dev.process import HOST
from nats3_dagster.settings.private import make_folder, open_private, write_private

ACCOUNT, USER, REGION = "nats3", "dev", "us-east-1"
BACKENDS = ("account", "container", "object")
# It decides where an object is stored, so it can never change for a data folder.
_PART_POWER = 4
_PIPELINE = (
    "catch_errors gatekeeper healthcheck listing_formats bulk s3api tempauth copy slo dlo versioned_writes symlink"
)


def write_config(folder: Path, ports: Mapping[str, int], secret: str, *, create_lock: bool) -> Path:
    """Write the configuration of all four servers, and the rings that say where the backends listen.

    Returns the folder that holds `<server>.conf`."""
    etc, devices = folder / "etc", folder / "node"
    for place in (etc, devices, devices / "d1"):
        make_folder(place)
    _ini(
        etc / "swift.conf",
        {
            "swift-hash": {"swift_hash_path_prefix": "local", "swift_hash_path_suffix": "s3"},
            "storage-policy:0": {"name": "gold", "default": "yes"},
        },
    )
    common = {
        "bind_ip": HOST,
        "swift_dir": etc,
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "workers": 0,
        "devices": devices,
        "mount_check": "false",
        "fallocate_reserve": 0,
        "disable_fallocate": "true",
        "log_level": "INFO",
        "client_timeout": 60,
        "conn_timeout": 10,
        "node_timeout": 60,
        "bind_timeout": 5,
        "db_preallocation": "off",
        # The object server waits until the bucket's listing is updated, so listings are consistent.
        "container_update_timeout": 60,
    }
    for name in BACKENDS:
        _ini(etc / f"{name}.conf", _backend(name, {**common, "bind_port": ports[name]}))
        _write_ring(etc / f"{name}.ring.gz", ports[name])
    _ini(etc / "proxy.conf", _proxy({**common, "bind_port": ports["proxy"]}, ports, secret, create_lock=create_lock))
    return etc


def read_ports(folder: Path) -> dict[str, int]:
    """The configured port of each server; 0 where its file is gone."""
    ports: dict[str, int] = {}
    for name in (*BACKENDS, "proxy"):
        config = ConfigParser(interpolation=None)
        config.read(folder / "etc" / f"{name}.conf")
        ports[name] = config.getint("DEFAULT", "bind_port", fallback=0)
    return ports


def _backend(name: str, default: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        "DEFAULT": default,
        "pipeline:main": {"pipeline": f"healthcheck {name}-server"},
        "filter:healthcheck": {"use": "egg:swift#healthcheck"},
        f"app:{name}-server": {"use": f"egg:swift#{name}", "log_requests": "false"},
    }


def _proxy(
    default: Mapping[str, Any], ports: Mapping[str, int], secret: str, *, create_lock: bool
) -> dict[str, Mapping[str, Any]]:
    options: dict[str, Mapping[str, Any]] = {
        "s3api": {"location": REGION, "max_upload_part_num": 10000, "multi_delete_concurrency": 8},
        "tempauth": {f"user_{ACCOUNT}_{USER}": f"{secret} .admin"},
        "slo": {"max_manifest_segments": 10000, "concurrency": 4},
        "versioned_writes": {"allow_object_versioning": "true"},
    }
    sections: dict[str, Mapping[str, Any]] = {
        "DEFAULT": default,
        "pipeline:main": {"pipeline": f"infocache {_PIPELINE}{' createlock' if create_lock else ''} proxy-server"},
        "filter:infocache": {
            "paste.filter_factory": "nats3_dagster.dev.s3.cache:factory",
            "backends": " ".join(str(ports[name]) for name in BACKENDS),
        },
        "filter:createlock": {"paste.filter_factory": "nats3_dagster.dev.create_lock:factory"},
        "app:proxy-server": {
            "use": "egg:swift#proxy",
            "account_autocreate": "true",
            "node_timeout": 60,
            "conn_timeout": 10,
            "recoverable_node_timeout": 60,
            "post_quorum_timeout": 60,
            # One replica: do not exclude the only server after errors.
            "error_suppression_limit": 1000000,
            "error_suppression_interval": 0,
        },
    }
    for name in _PIPELINE.split():
        sections[f"filter:{name}"] = {"use": f"egg:swift#{name}", **options.get(name, {})}
    return sections


def _write_ring(path: Path, port: int) -> None:
    """Write a ring of one device in Swift's format 1: the device of each partition, here always 0.

    Swift's own builder would load eventlet into our process. It warns at every fork, and a warning is an error in our
    tests."""
    device = {
        "id": 0,
        "region": 1,
        "zone": 1,
        "weight": 1.0,
        "device": "d1",
        "meta": "",
        "ip": HOST,
        "port": port,
        "replication_ip": HOST,
        "replication_port": port,
    }
    ring = {
        "byteorder": sys.byteorder,
        "devs": [device],
        "part_shift": 32 - _PART_POWER,
        "replica_count": 1,
        "version": 1,
    }
    text = json.dumps(ring).encode("ascii")
    partitions = bytes(2 * 2**_PART_POWER)  # an unsigned short each
    with open_private(path, "wb") as raw, gzip.open(raw, "wb") as file:
        file.write(b"R1NG\x00\x01" + struct.pack("!I", len(text)) + text + partitions)


def _ini(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> None:
    lines: list[str] = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in values.items())]
    write_private(path, "\n".join(lines) + "\n")
