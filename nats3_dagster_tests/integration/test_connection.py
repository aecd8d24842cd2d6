"""Connections: every way to log in, and one clear line for every way to fail, without a secret in it."""

import logging
import os
import pickle
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import nkeys
import pytest

from nats3_dagster.errors import Nats3Error, OperatorError, SourceError, TargetError
from nats3_dagster.jetstream.api import Refused
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import stream_names
from nats3_dagster.settings import Settings
from nats3_dagster_tests.conftest import freeze
from nats3_dagster_tests.support.servers.logins import SECRET, Authority, name_of, operator_mode, seed, tls_config
from nats3_dagster_tests.support.waiting import eventually


def options(server, **fields):
    return NatsOptions(servers=(server.url,), **fields)


def connected(options):
    with Link(options) as link:
        return server_info(link).jetstream


def refusal(options, error: type[Nats3Error] = SourceError):
    with pytest.raises(error) as caught, Link(options):
        pass
    text = f"{caught.value} {options!r}"
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert SECRET not in text
    assert "s3cr3t" not in text
    return str(caught.value)


# Logins


def test_no_login(nats):
    assert connected(nats.options)


@pytest.fixture
def password_server(nats_factory):
    return nats_factory(config=f'authorization {{user: "u s", password: "{SECRET}"}}')


def test_user_and_password(password_server):
    assert connected(options(password_server, user="u s", password=SECRET))


def test_user_and_password_in_the_url(password_server):
    url = f"nats://u%20s:s3cr3t%3Ap%40ss%2Fw%25rd@127.0.0.1:{password_server.port}"
    assert connected(NatsOptions(servers=(url,)))


def test_a_login_beside_the_url_wins(password_server):
    url = f"nats://other:word@127.0.0.1:{password_server.port}"
    assert connected(NatsOptions(servers=(url,), user="u s", password=SECRET))


@pytest.mark.parametrize("login", [{}, {"user": "u s", "password": SECRET + "x"}, {"user": "u s"}, {"token": SECRET}])
def test_a_wrong_login_is_refused(password_server, login):
    assert "refused the login" in refusal(options(password_server, **login))


# nats-py leaves the socket of a refused attempt to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_password_that_is_changed_while_connected_is_named(password_server, is_restarted):
    """As during a replay: the server is up, and what it refuses is the login."""
    with Link(options(password_server, user="u s", password=SECRET)) as link:
        assert server_info(link).jetstream
        former, other = SECRET, "another"
        if is_restarted:
            password_server.stop()
            password_server.config = password_server.config.replace(former, other)
            password_server.start()
        else:
            path = Path(password_server.marker[1])
            path.write_text(path.read_text().replace(former, other))
            os.kill(password_server.process.pid, signal.SIGHUP)

        def refusal() -> str:
            try:
                return "" if stream_names(link) == [] else "?"
            except SourceError as error:
                return str(error) if "refused" in error.what else ""

        assert "refused the login. Check the user, password" in eventually(refusal, "the login is refused")


def test_token(nats_factory):
    server = nats_factory(config=f'authorization {{token: "{SECRET}"}}')
    assert connected(options(server, token=SECRET))
    assert connected(NatsOptions(servers=(server.url.replace("//", "//s3cr3t%3Ap%40ss%2Fw%25rd@"),)))
    assert "refused the login" in refusal(options(server, token=SECRET + "x"))


def test_nkey(nats_factory, tmp_path):
    ours, other = seed(), seed()
    public = name_of(nkeys.from_seed(bytearray(ours)))
    server = nats_factory(config=f"authorization {{users: [{{nkey: {public}}}]}}")
    for content, name in ((ours, "ours"), (other, "other")):
        (tmp_path / name).write_bytes(bytes(content) + b"\n")
    assert connected(options(server, nkey=str(tmp_path / "ours")))
    assert "refused the login" in refusal(options(server, nkey=str(tmp_path / "other")))


def test_creds_file(nats_factory, tmp_path):
    config, creds = operator_mode()
    server = nats_factory(config=config)
    (tmp_path / "user.creds").write_text(creds)
    with Link(options(server, creds=str(tmp_path / "user.creds"))) as link:
        assert stream_names(link) == []
    _, foreign = operator_mode()
    (tmp_path / "foreign.creds").write_text(foreign)
    assert "refused the login" in refusal(options(server, creds=str(tmp_path / "foreign.creds")))


@pytest.mark.parametrize("what", ["creds", "nkey", "tls_ca"])
def test_a_file_that_is_missing_or_none_is_named(nats, tmp_path, what):
    path = tmp_path / "file"
    assert f"{path} cannot be read" in refusal(options(nats, **{what: str(path)}), OperatorError)
    path.write_text("garbage")
    assert str(path) in refusal(options(nats, **{what: str(path)}), OperatorError)


def test_a_seed_that_is_malformed_is_refused(nats, tmp_path):
    (tmp_path / "seed").write_text("SUAGARBAGE")
    assert "key is malformed" in refusal(options(nats, nkey=str(tmp_path / "seed")))


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


def test_tls(nats_factory, authority):
    server = nats_factory(config=tls_config(authority))
    for url in (server.url, server.url.replace("nats:", "tls:")):
        assert connected(NatsOptions(servers=(url,), tls_ca=authority.file))


def test_tls_with_a_client_certificate(nats_factory, authority):
    server = nats_factory(config=tls_config(authority, "verify: true"))
    cert, key = authority.issue("client")
    assert connected(options(server, tls_ca=authority.file, tls_cert=cert, tls_key=key))
    refusal(options(server, tls_ca=authority.file))


def test_a_certificate_of_an_unknown_authority_is_refused(nats_factory, authority, tmp_path):
    server = nats_factory(config=tls_config(authority))
    assert "not trusted" in refusal(options(server, tls_ca=Authority(tmp_path).file))
    assert "not trusted" in refusal(options(server))


def test_a_login_is_not_sent_in_clear_where_tls_is_asked_for(nats_factory, authority):
    server = nats_factory(config="debug: true\ntrace: true")
    asked = options(server, tls_ca=authority.file, user="u", password=SECRET)
    assert "offers no TLS" in refusal(asked)
    assert "CONNECT" not in (server.folder / "server.log").read_text()


@pytest.mark.needs_nats("2.10")
def test_tls_before_the_servers_first_word(nats_factory, authority):
    server = nats_factory(config=tls_config(authority, "handshake_first: true"))
    assert connected(options(server, tls_ca=authority.file, tls_first=True))


def test_a_key_without_its_certificate_is_refused():
    with pytest.raises(OperatorError, match="without its certificate"):
        NatsOptions(servers=("nats://h",), tls_key="k")


@pytest.mark.needs_nats("2.10.4")
def test_tls_first_by_the_settings(nats_factory, authority, monkeypatch):
    server = nats_factory(config=tls_config(authority, "handshake_first: true"))
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    monkeypatch.setenv("NATS3_NATS_TLS_CA", authority.file)
    refusal(replace(Settings.load().nats, connect_timeout_s=0.5))
    monkeypatch.setenv("NATS3_NATS_TLS_FIRST", "true")
    assert connected(Settings.load().nats)


# JetStream's API and inboxes


def test_the_subjects_of_the_api(monkeypatch):
    monkeypatch.setenv("NATS3_NATS_URL", "nats://h")
    assert Settings.load().nats.api == "$JS.API"
    monkeypatch.setenv("NATS3_NATS_DOMAIN", "leaf-1")
    assert Settings.load().nats.api == "$JS.leaf-1.API"
    monkeypatch.delenv("NATS3_NATS_DOMAIN")
    monkeypatch.setenv("NATS3_NATS_API_PREFIX", "JS.acme.API")
    assert Settings.load().nats.api == "JS.acme.API"


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"domain": "a", "api_prefix": "b"}, "A JetStream domain and a prefix of its API are given"),
        *(({"domain": d}, "The JetStream domain") for d in ("", "a.b", "a b", "*", ">", "a\xa0")),
        *(({"api_prefix": p}, "The prefix of JetStream's API") for p in ("", "a.", ".a", "a..b", "a b", "a.*", "a.>")),
        *(
            ({"inbox_prefix": p}, "The inbox prefix")
            for p in ("", "_INBOX.", "_INBOX.*", "_INBOX.>", "_IN BOX", "a..b")
        ),
    ],
)
def test_subjects_that_are_invalid_are_refused(fields, what):
    with pytest.raises(OperatorError, match=what) as caught:
        NatsOptions(servers=("nats://h",), **fields)
    assert "NATS3_NATS_" in str(caught.value.hint)


def test_another_inbox_where_permissions_allow_no_other(nats_factory, monkeypatch):
    allowed = "permissions: {subscribe: {allow: [_INBOX_me.>]}}"
    server = nats_factory(config=f"authorization {{users: [{{user: u, password: p, {allowed}}}]}}")
    for name, value in (("URL", server.url), ("USER", "u"), ("PASSWORD", "p")):
        monkeypatch.setenv(f"NATS3_NATS_{name}", value)
    with Link(Settings.load().nats) as link, pytest.raises(Refused, match=r"subscription to \"_inbox\."):
        stream_names(link)
    monkeypatch.setenv("NATS3_NATS_INBOX_PREFIX", "_INBOX_me")
    with Link(Settings.load().nats) as link:
        assert stream_names(link) == []


def test_a_refused_inbox_is_named_as_it_is_to_be_permitted(nats_factory):
    allowed = "permissions: {publish: {deny: [_INBOX.me.>]}}"
    server = nats_factory(config=f"authorization {{users: [{{user: u, password: p, {allowed}}}]}}")
    with pytest.raises(TargetError) as caught:  # noqa: SIM117
        with Publisher(options(server, user="u", password="p", inbox_prefix="_INBOX.me")):
            pass
    assert str(caught.value.hint) == "Permit the user to publish to _INBOX.me.>"


# Servers


def test_a_server_that_is_down():
    assert "Nothing listens for NATS at 127.0.0.1:1" in refusal(NatsOptions(servers=("nats://127.0.0.1:1",)))


def test_an_unknown_host():
    asked = NatsOptions(servers=("nats://u:s3cr3t@no-such-host.invalid",))
    assert "The host of NATS at no-such-host.invalid:4222 is unknown" in refusal(asked)


def test_a_server_that_does_not_answer(own_nats):
    freeze(own_nats)
    asked = options(own_nats, connect_timeout_s=0.2)
    try:
        assert "did not answer in time" in refusal(asked)
    finally:
        own_nats.resume()


def test_one_of_several_servers_is_enough(nats):
    for servers in (("nats://127.0.0.1:1", nats.url), (nats.url, "nats://127.0.0.1:1")):
        assert connected(NatsOptions(servers=servers))


def test_each_server_that_failed_is_named(password_server):
    told = refusal(NatsOptions(servers=("nats://127.0.0.1:1", password_server.url)))
    assert "127.0.0.1:1;" in told or "127.0.0.1:1." in told
    assert f"127.0.0.1:{password_server.port} refused the login" in told


@pytest.mark.parametrize("url", ["", "http://h:1", "nats://", "nats://u:s3cr3t@h:99999", "nats://u:s3cr3t@h:port"])
def test_a_malformed_url_is_refused_and_not_repeated(url):
    with pytest.raises(OperatorError) as caught:
        NatsOptions(servers=(url,))
    assert "s3cr3t" not in str(caught.value)


def test_servers_with_different_logins_are_refused():
    with pytest.raises(OperatorError, match="different logins"):
        NatsOptions(servers=("nats://a:b@h", "nats://c:d@h"))


def test_options_pickle_and_hold_no_secret_in_their_text():
    asked = NatsOptions(servers=(f"nats://u:{'s3cr3t'}@h",), token=SECRET)
    assert pickle.loads(pickle.dumps(asked)) == asked
    assert "s3cr3t" not in repr(asked)
    assert replace(asked, name="x").token == SECRET


# Links


def test_a_link_outlives_a_restart_of_its_server(own_nats):
    with Link(own_nats.options) as link:
        own_nats.kill()
        threading.Timer(0.5, own_nats.start).start()
        assert stream_names(link) == []


def test_a_permission_that_lacks_is_told(nats_factory):
    denied = '{user: u, password: p, permissions: {publish: {deny: "$JS.API.STREAM.NAMES"}}}'
    server = nats_factory(config=f"authorization {{users: [{denied}]}}")
    with Link(options(server, user="u", password="p")) as link, pytest.raises(SourceError) as caught:
        stream_names(link)
    assert "permissions violation" in str(caught.value).lower()
    assert "$js.api.stream.names" in str(caught.value).lower()


def test_a_server_without_jetstream_is_told(nats_factory):
    server = nats_factory(config="jetstream: disabled")
    with Link(server.options) as link:
        assert not server_info(link).jetstream
        with pytest.raises(SourceError, match="has no JetStream"):
            stream_names(link)


def test_messages_reach_a_subscriber_until_it_ends(nats):
    got, also_got = [], []
    with Link(nats.options) as one, Link(nats.options) as other:

        def publish_until_received(data, received):
            # A link drops what is published while it connects again, as on a busy machine.
            while received.count(data) < 2:
                other.publish("progress.x", data)
                time.sleep(0.01)

        stop = one.subscribe("progress.x", got.append)
        one.subscribe("progress.x", also_got.append)
        publish_until_received(b"1", got)
        stop()
        publish_until_received(b"2", also_got)
        stream_names(one)  # a round trip
    assert set(got) == {b"1"}


def test_nothing_is_logged_when_a_server_goes_away(own_nats, caplog):
    caplog.set_level(logging.INFO)
    with Link(own_nats.options) as link:
        own_nats.kill()
        while link.client._server_pool[0].reconnects < 2:  # it tries again, in vain
            time.sleep(0.01)
    assert caplog.records == []


def test_a_closed_link_says_so(nats):
    with Link(nats.options) as link:
        pass
    with pytest.raises(SourceError, match="closed"):
        stream_names(link)


# What nsc, nk and openssl would make
