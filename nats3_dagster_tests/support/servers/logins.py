"""Logins of a nats-server: certificates, nkeys, operators."""

import base64
import datetime
import hashlib
import ipaddress
import json
import os
import time
from typing import Any

import nkeys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SECRET = "s3cr3t:p@ss/w%rd"


def tls_config(authority, more=""):
    cert, key = authority.issue("server")
    return f'tls {{cert_file: "{cert}", key_file: "{key}", ca_file: "{authority.file}", {more}}}'


def seed(kind=nkeys.PREFIX_BYTE_USER):
    return bytearray(nkeys.encode_seed(os.urandom(32), kind))


def name_of(pair: Any) -> str:
    """The public key as NATS writes it."""
    return pair.public_key.decode()


class Operator:
    """A new operator, and its one account with JetStream."""

    def __init__(self):
        kinds = (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_ACCOUNT)
        operator, system, self._account = (nkeys.from_seed(seed(kind)) for kind in kinds)
        limits = {
            "subs": -1,
            "conn": -1,
            "leaf": -1,
            "imports": -1,
            "exports": -1,
            "data": -1,
            "payload": -1,
            "wildcards": True,
        }
        jetstream = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        operator_jwt = jwt(operator, operator, {"type": "operator"})
        system_jwt = jwt(operator, system, {"type": "account", "limits": limits})
        account_jwt = jwt(operator, self._account, {"type": "account", "limits": limits | jetstream})
        accounts = {name_of(system): system_jwt, name_of(self._account): account_jwt}
        preload = "\n".join(f"{name}: {token}" for name, token in accounts.items())
        # Of a server that trusts it.
        self.config = (
            f"operator: {operator_jwt}\nsystem_account: {name_of(system)}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}"
        )

    def creds(self, seconds=None):
        """A creds file of a new user; its JWT ends after so many seconds."""
        user_seed = seed()
        user = nkeys.from_seed(bytearray(user_seed))
        end = {} if seconds is None else {"exp": int(time.time() + seconds)}
        user_jwt = jwt(self._account, user, {"type": "user", "subs": -1, "data": -1, "payload": -1}, **end)
        return (
            f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{bytes(user_seed).decode()}\n------END USER NKEY SEED------\n"
        )

    def bearer(self):
        """The JWT of a user without an end, which counts without a signature."""
        return jwt(
            self._account,
            nkeys.from_seed(seed()),
            {"type": "user", "subs": -1, "data": -1, "payload": -1, "bearer_token": True},
        )


def operator_mode():
    """The configuration of a server that trusts a new operator, and the creds of a user of its one account."""
    operator = Operator()
    return operator.config, operator.creds()


def jwt(issuer, subject, claims, **more):
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    body = {
        "iat": int(time.time()),
        "iss": name_of(issuer),
        "sub": name_of(subject),
        "name": "test",
        "nats": {"version": 2, **claims},
        **more,
    }
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).rstrip(b"=").decode()
    head = part(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    signed = f"{head}.{part(json.dumps(body).encode())}"
    return f"{signed}.{part(issuer.sign(signed.encode()))}"


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder):
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        cert = self._sign(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.file = self._write("ca.pem", cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, name):
        """Certificate and key of 127.0.0.1, as files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        cert = self._sign(subject, key, here)
        plain = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        return (
            self._write(f"{name}.pem", cert.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{name}.key", pem),
        )

    def _sign(self, subject, key, extension):
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        )
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name, content):
        path = self._folder / name
        path.write_bytes(content)
        return str(path)
