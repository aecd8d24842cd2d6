"""Files of archives: three formats, the peer's shape, and each problem with its line."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from nats3_dagster.archive.declared.entries import read
from nats3_dagster.archive.declared.exports import entry_of_export
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec, ExportSpec

WHOLE = """
defaults: {bucket: archive, max_age: 5m}
archives:
  - name: logs
    stream: LOGS
    subjects: [logs.a, 'logs.*.b']
    prefix: team/logs
    max_messages: 1_000
    max_bytes: 64MiB
    zstd_level: 1
    paused: true
  - name: orders
    stream: ORDERS
    subject: ">"
    bucket: other
    max_bytes: 1000
    max_age: 90
    create_bucket: true
  - {name: jobs, stream: JOBS, mode: consumer, prefix: }
  - {name: shared, stream: JOBS, consumer: mine, subject: jobs.>}
"""
PEER = """
[nats]
url = "localhost:4222"
[server]
addr = "0.0.0.0:8080"
[[store]]
name = "job-1"
stream = "jobs"
subject = "subjects-1"
bucket = "bucket-1"
prefix = "foo"
batch.max_count = 1000
batch.max_bytes = 1000000
encoding.codec = "json"
[[store]]
name = "all"
stream = "jobs"
consumer = "mine"
subject = ">"
bucket = "bucket-1"
"""


def test_a_whole_file() -> None:
    logs, orders, jobs, shared = read([("a.yaml", WHOLE)]).archives
    assert logs.spec == ArchiveSpec(
        "logs",
        "LOGS",
        "archive",
        prefix="team/logs",
        subjects=("logs.a", "logs.*.b"),
        max_messages=1000,
        max_bytes=64 << 20,
        max_age_s=300,
        zstd_level=1,
    )
    assert (logs.paused, logs.create_bucket, logs.place) == (True, False, "a.yaml:4")
    assert orders.spec == ArchiveSpec("orders", "ORDERS", "other", max_bytes=1000, max_age_s=90)
    assert (orders.paused, orders.create_bucket) == (None, True)
    assert "paused" not in orders.wanted
    assert (jobs.spec.mode, jobs.wanted["durable"], "subjects" in jobs.wanted) == ("consumer", "nats3-jobs", False)
    assert (shared.spec.mode, shared.wanted["durable"], shared.wanted["subjects"]) == ("consumer", "mine", ("jobs.>",))


def test_three_formats_say_the_same() -> None:
    entry = {"name": "logs", "stream": "LOGS", "bucket": "archive", "subjects": ["a.>"], "max_age": "1h30m"}
    written = {
        "a.json": json.dumps({"archives": [entry]}, indent="\t"),
        "a.toml": "[[archives]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items()),
        "stdin": json.dumps({"archives": [entry]}),
    }
    specs = {read([(file, text)]).archives[0].spec for file, text in written.items()}
    assert specs == {ArchiveSpec("logs", "LOGS", "archive", subjects=("a.>",), max_age_s=5400)}


@pytest.mark.parametrize("as_yaml", [False, True])
def test_a_file_of_the_peer(as_yaml: bool) -> None:
    text = PEER
    if as_yaml:
        text = """
server: {addr: "0.0.0.0:8080"}
nats: {url: localhost}
store:
  - {name: job-1, stream: jobs, subject: subjects-1, bucket: bucket-1, prefix: foo,
     batch: {max_count: 1000, max_bytes: 1000000}, encoding: {codec: json}}
  - {name: all, stream: jobs, consumer: mine, subject: ">", bucket: bucket-1, prefix: null}
"""
    file = "nats3.yaml" if as_yaml else "nats3.toml"
    declared = read([(file, text)])
    first, second = declared.archives
    assert first.spec == ArchiveSpec(
        "job_1", "jobs", "bucket-1", prefix="foo", subjects=("subjects-1",), max_messages=1000, max_bytes=1_000_000
    )
    assert second.spec == ArchiveSpec("all", "jobs", "bucket-1", mode="consumer", durable="mine")
    assert declared.left_out == (
        f"{file}: left out server, nats, which set up nats-s3-connector itself: see docs/configuration.md",
        f"{file}: left out encoding: every archive is of Parquet objects",
    )


def test_jobs_of_the_peer_keep_their_names() -> None:
    """Two names of which one archive's name is made are two jobs; that archive cannot be declared beside them."""
    jobs = "store:\n" + "".join(f"- {{name: {name}, stream: EV, bucket: archive}}\n" for name in ("a-b", "a_b", "a.b"))
    declared = read([("f.yaml", jobs)]).archives
    assert [(one.name, one.job_name, one.spec.name) for one in declared] == [
        ("a-b", "a-b", "a_b"),
        ("a_b", "a_b", "a_b"),
        ("a.b", "a.b", "a_b"),
    ]
    own = ("own.yaml", "archives:\n- {name: a_b, stream: EV, bucket: archive}\n")
    assert read([own]).archives[0].job_name is None
    for files in ([("f.yaml", jobs), own], [own, ("f.yaml", jobs)]):
        with pytest.raises(OperatorError, match="archive a_b is declared at"):
            read(files)
    with pytest.raises(OperatorError, match=r"^f.yaml:3: archive a-b is declared at f.yaml:2 already"):
        read([("f.yaml", jobs.replace("a_b", "a-b"))])
    with pytest.raises(OperatorError, match="^f.yaml:2: '' is not a name"):
        read([("f.yaml", "store:\n- {name: '', stream: EV, bucket: archive}\n")])


JOB = "store:\n- {name: a, stream: EV, bucket: archive"
ENTRY = "archives:\n  - name: a\n    stream: EV\n    bucket: archive\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f.yaml is no table of archives. Begin it with archives: and a list below it"),
        ("[1]", "f.yaml is no table of archives. Begin it"),
        ("{}", "f.yaml declares no archives. Begin it with archives: and a list below it"),
        ("archive: []", "f.yaml:1: a file of archives has no key 'archive'. Did you mean archives?"),
        ("archives: {}", "f.yaml:1: archives is no list of tables. Begin each archive with - name:"),
        ("archives: [logs]", "f.yaml:1: archives is no list of tables."),
        ("defaults: 5\narchives: []", "f.yaml:1: defaults is no table. Write below it the fields"),
        ("defaults: {name: a}\n" + ENTRY, "f.yaml:1: defaults has no key 'name'."),
        (ENTRY + "    max_mesages: 5\n", "f.yaml:5: an archive has no key 'max_mesages'. Did you mean max_messages?"),
        (ENTRY + "    colour: red\n", "f.yaml:5: an archive has no key 'colour'. It has name, stream, bucket, prefix,"),
        (ENTRY + "    name: b\n", "f.yaml:5 has the key 'name' a second time. Leave one of them out"),
        (ENTRY + "    subject: >\n", "f.yaml:5: '' is not a subject filter"),
        (ENTRY + "    subjects: [*.a]\n", "f.yaml:5 is not YAML: "),
        (ENTRY + "    subject: a\n    subjects: [b]\n", "f.yaml:6: an archive has both subject and subjects. Give one"),
        (ENTRY + "    subjects: [1]\n", "f.yaml:5: subjects is 1, and must be text. Put it in quotes"),
        (ENTRY + "    prefix: 2026-01-01\n", "f.yaml:5: prefix is datetime.date(2026, 1, 1), and must be text."),
        (ENTRY + "    max_messages: 5.5\n", "f.yaml:5: max_messages is 5.5, and must be a whole number. Write it like"),
        (ENTRY + "    max_messages: true\n", "f.yaml:5: max_messages is True, and must be a whole number."),
        (ENTRY + "    max_messages: 0\n", "f.yaml:5: max_messages is 0. Use 1 to 281,474,976,710,656"),
        (ENTRY + "    max_bytes: much\n", "f.yaml:5: 'much' is not a size. Write it as 67108864, 64MiB or 64MB"),
        (ENTRY + "    max_age: 5 minutes\n", "f.yaml:5: '5 minutes' is not a duration. Write it as 60s, 5m,"),
        (ENTRY + "    paused: 'yes'\n", "f.yaml:5: paused is 'yes'. Write true or false"),
        (ENTRY + "    mode: push\n", "f.yaml:5: There is no mode 'push'. Use stream or consumer"),
        (ENTRY + "    mode: stream\n    consumer: c\n", "f.yaml:6: An archive of the mode stream has no consumer."),
        ("archives:\n  - stream: EV\n", "f.yaml:2: an archive without name and bucket. Add what is missing"),
        (ENTRY + ENTRY.split("\n", 1)[1], "f.yaml:5: archive a is declared at f.yaml:2 already. Leave one of them out"),
        (ENTRY + "    ? [1]\n    : 2\n", "f.yaml:5 is not YAML: the key [1] is no text"),
        ("a: !!python/object/apply:os.getcwd []", "f.yaml:1 is not YAML: could not determine a constructor for"),
        ("a: 1\nb: \x00", "f.yaml:2 is not YAML: unacceptable character #x0000:"),
        (ENTRY + "    subjects: [a\n", "f.yaml:6 is not YAML: expected ',' or ']', but got '<stream end>'. Check"),
        (ENTRY + "\tprefix: a\n", "f.yaml:5 is not YAML: found character '\\t' that cannot start any token. Indent"),
        (ENTRY + "    prefix: a: b\n", "f.yaml:5 is not YAML: mapping values are not allowed here. Put a text"),
        (ENTRY + "    prefix: @a\n", "f.yaml:5 is not YAML: found character '@' that cannot start any token. Put a"),
        (ENTRY + "    subject: >.a\n", "f.yaml:5 is not YAML: expected chomping or indentation indicators, but found"),
        (ENTRY + "    subject: *a\n", "f.yaml:5 is not YAML: found undefined alias 'a'. Put names and filters that"),
        (ENTRY + "    prefix: 2026-13-41\n", "f.yaml:5 is not YAML: '2026-13-41' is no value: month must be in 1..12."),
        (ENTRY + "---\n" + ENTRY, "f.yaml:5 is not YAML: but found another document. Write one document"),
        ("archives:\n", "f.yaml:1: archives has no value. Write a list of tables, or [] for none"),
        ("archives: null\n", "f.yaml:1: archives has no value."),
        ("s3: {}\nstore:\n", "f.yaml:2: store has no value. Write a list of tables, or [] for none"),
        ("store:\n- {name: a, steam: EV, bucket: b-1}\n", "f.yaml:2: a store job has no key 'steam'. Did you mean"),
        ("store: []\njobs: 1\n", "f.yaml:2: a file of nats-s3-connector has no key 'jobs'."),
        (JOB + ", batch: 5}\n", "f.yaml:2: batch is no table. Write it as a table"),
        (JOB + ", batch: {max: 5}}\n", "f.yaml:2: batch has no key 'max'. It has max_count, max_bytes"),
        (JOB + ", encoding: {codec: xml}}\n", "f.yaml:2: there is no codec 'xml'. Write json or binary"),
    ],
)
def test_a_problem_has_its_place_and_what_to_do(text: str, problem: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read([("f.yaml", text)])
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("f.toml", "archives = [", "f.toml is not TOML: "),
        (
            "f.toml",
            "[[archives]]\nnam = 'a'\nstream = 'EV'\nbucket = 'archive'",
            "f.toml: an archive has no key 'nam'. Did you mean name?",
        ),
        ("f.json", "{", "f.json is not JSON: "),
        (
            "f.json",
            '{"archives": [{"name": "a", "stream": "EV", "bucket": "archive", "name": "b"}]}',
            "f.json has the key 'name' twice in one table.",
        ),
        ("f.json", '{"archives": null}', "f.json: archives has no value. Write a list of tables, or [] for none"),
    ],
)
def test_other_formats_name_the_file(file: str, text: str, problem: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read([(file, text)])
    assert str(refused.value).startswith(problem)


def test_all_problems_of_all_files_are_named() -> None:
    with pytest.raises(OperatorError) as refused:
        read([("f.yaml", ENTRY + "    max_bytes: x\n    paused: 5\n"), ("g.yaml", "{}"), ("h.yaml", ENTRY)])
    assert str(refused.value) == (
        "3 problems. f.yaml:5: 'x' is not a size (Write it as 67108864, 64MiB or 64MB); f.yaml:6: paused is 5 (Write "
        "true or false); g.yaml declares no archives (Begin it with archives: and a list below it). Nothing was changed"
    )
    with pytest.raises(OperatorError, match=r"^g.yaml:2: archive a is declared at f.yaml:2 already"):
        read([("f.yaml", ENTRY), ("g.yaml", ENTRY)])


MANY = """
defaults: {bucket: archive, max_messages: 0, colour: red, zstd_level: high}
archives:
  - {name: a, stream: EV}
  - {name: a-b, stream: 'E V', max_bytes: x}
  - name: c
    stream: EV
    stream: LOGS
    max_age: 0
    max_mesages: 5
    mode: push
    consumer: mine
  - {nam: d}
  - {name: e, stream: EV, exports: [{name: f, colour: red, format: [csv]}]}
"""


def test_a_problem_is_named_once_and_hides_no_other() -> None:
    with pytest.raises(OperatorError) as refused:
        read([("f.yaml", MANY), ("g.json", "[")])
    assert refused.value.what.split("; ")[0].startswith("16 problems. f.yaml:8 has the key 'stream' a second time (")
    problems = [text.partition(" (")[0] for text in refused.value.what.split("; ")[1:]]
    assert problems == [
        "f.yaml:2: defaults has no key 'colour'",
        "f.yaml:2: zstd_level is 'high', and must be a whole number",
        "f.yaml:2: max_messages is 0",
        "f.yaml:5: 'x' is not a size",
        "f.yaml:5: 'a-b' is not an archive name",
        "f.yaml:5: 'E V' is not a stream name",
        "f.yaml:10: an archive has no key 'max_mesages'",
        "f.yaml:11: There is no mode 'push'",
        "f.yaml:9: max_age_s is 0",
        "f.yaml:13: an archive has no key 'nam'",
        "f.yaml:13: an archive without stream",
        "f.yaml:14: an export has no key 'colour'",
        "f.yaml:14: format is a list, and must be text",
        "f.yaml:14: an export without to",
        "g.json is not JSON: Expecting value: line 1 column 2",
    ]
    # A file may have more problems than a line should.
    with pytest.raises(OperatorError, match=r"^25 problems\. .*; and 5 more\. Nothing was changed$"):
        read([("f.yaml", "archives:\n" + "- {}\n" * 25)])


SETUP = """
log = "info"

[server]
addr = "0.0.0.0:8080"

[nats]
url = "nats:4222"

[postgres]
url = "postgresql://user:pass@postgres:5432/db"
migrate = true

[s3]
region = "us-east-1"
endpoint = "http://minio:9000"
access = "test-user"
secret = "test-password"
"""


@pytest.mark.parametrize("file", ["config.toml", "config.yaml"])
def test_a_file_of_the_peer_without_jobs_declares_none_and_prunes_nothing(file: str) -> None:
    text = SETUP if file.endswith("toml") else yaml.safe_dump(tomllib.loads(SETUP))
    declared = read([(file, text)])
    assert declared.archives == ()
    sections, jobs = declared.left_out
    assert sections.startswith(f"{file}: left out log, server, nats, s3, postgres, which set up nats-s3-connector")
    assert jobs.startswith(f"{file}: there are no store jobs in it: GET /store/jobs of its server lists those")
    with pytest.raises(OperatorError, match=f"^{file} lists no store jobs: to prune by it would delete every archive"):
        read([("a.yaml", ENTRY), (file, text)], prune=True)
    assert read([("a.yaml", "archives: []")], prune=True).archives == ()
    assert read([(file, text), ("a.yaml", ENTRY)]).archives[0].name == "a"


def test_anchors_and_merged_defaults() -> None:
    text = """
defaults: &all {stream: EV, bucket: archive}
archives:
  - {<<: *all, name: a, bucket: other}
  - &b {name: b}
"""
    a, b = read([("f.yaml", text)]).archives
    assert (a.spec.bucket, b.spec.bucket, a.spec.stream) == ("other", "archive", "EV")


EXPORTS = """
archives:
  - name: pizza
    stream: ORDERS
    bucket: archive
    exports:
      - name: by_store
        to: s3://lake/pizza
        subject: orders.>
        decode: json
        key: subject:2
        format: csv
        columns: [order, price]
        interval_minutes: 15
        path: "{key}/{date}/{hour}{minute}-{part}.{ext}"
        escape_formulas: true
      - {name: all, to: "file:///lake", subjects: [">"], format: messages, max_undecoded: }
"""


def test_exports_of_an_archive_come_back_as_they_were_written() -> None:
    (pizza,) = read([("a.yaml", EXPORTS)]).archives
    assert pizza.exports == (
        ExportSpec("all", "file:///lake", format="messages"),
        ExportSpec(
            "by_store",
            "s3://lake/pizza",
            ("orders.>",),
            "json",
            key="subject:2",
            format="csv",
            columns=("order", "price"),
            interval_minutes=15,
            path="{key}/{date}/{hour}{minute}-{part}.{ext}",
            escape_formulas=True,
        ),
    )
    for spec in pizza.exports:
        entry = {"name": "pizza", "stream": "ORDERS", "bucket": "archive", "exports": [entry_of_export(spec)]}
        (again,) = read([("a.json", json.dumps({"archives": [entry]}))]).archives
        assert again.exports == (spec,)


@pytest.mark.parametrize(
    ("file", "schema", "path"),
    [
        ("team/a.yaml", "order.json", "{here}/team/order.json"),
        ("/etc/a.yaml", "../order.json", "/order.json"),
        ("stdin", "order.json", "{here}/order.json"),
        ("/etc/a.yaml", "/srv/order.json", "/srv/order.json"),
    ],
)
def test_a_schema_is_where_the_file_of_archives_says(file: str, schema: str, path: str) -> None:
    text = EXPORTS.replace("decode: json", f"decode: json\n        schema: {schema}")
    (pizza,) = read([(file, text)]).archives
    assert pizza.exports[1].schema == path.format(here=Path.cwd())


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("interval_minutes: 15", "interval_minuts: 15", "a.yaml:14: an export has no key 'interval_minuts'"),
        ("interval_minutes: 15", "interval_minutes: 7", "a.yaml:14: interval_minutes is 7"),
        ("interval_minutes: 15", "interval_minutes: 15m", "a.yaml:14: interval_minutes is '15m', and must be a whole"),
        ("to: s3://lake/pizza", "to: ftp://lake", "a.yaml:8: 'ftp://lake' is not a destination"),
        ("        to: s3://lake/pizza\n", "", "a.yaml:7: an export without to"),
        ("{part}", "{store}", "a.yaml:15: The path has the unknown name {store}"),
        ("key: subject:2", "key: subject", "a.yaml:11: 'subject' is not a key"),
        ("key: subject:2", "subjects: [a]", "a.yaml:11: an export has both subject and subjects"),
        ("subject: orders.>", "subject: orders..a", "a.yaml:9: "),
        ("name: all", "name: by_store", "a.yaml:17: export by_store is there twice"),
        ("format: csv", "format: [csv]", "a.yaml:12: format is a list, and must be text"),
        ("format: csv", "format: parquet", "a.yaml:16: Files of the format parquet have no formulas to escape"),
        ("escape_formulas: true", "escape_formulas: 1", "a.yaml:16: escape_formulas is 1"),
    ],
)
def test_a_bad_export_is_refused_with_its_line(old: str, new: str, error: str) -> None:
    assert old in EXPORTS
    with pytest.raises(OperatorError) as caught:
        read([("a.yaml", EXPORTS.replace(old, new))])
    assert caught.value.what.startswith(error)


def test_the_nearest_key_of_an_export_is_named() -> None:
    with pytest.raises(OperatorError) as caught:
        read([("a.yaml", EXPORTS.replace("columns:", "column:"))])
    assert str(caught.value.hint) == "Did you mean columns?"
    with pytest.raises(OperatorError, match="exports is no list of tables"):
        read([("a.yaml", "archives:\n- {name: a, stream: S, bucket: archive, exports: by_store}")])
