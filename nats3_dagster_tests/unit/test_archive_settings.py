"""Every setting of an archive is wherever archives are made, changed and shown, as the table of settings says."""

from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.declared.entries import ARCHIVE_KEYS
from nats3_dagster.archive.lifecycle.change import CHANGEABLE
from nats3_dagster.bodies.store_jobs import CreateStoreJob
from nats3_dagster.catalog.rows import ArchiveRow
from nats3_dagster.defs.assets.metadata import archive_metadata
from nats3_dagster.defs.project.component import ArchiveDeclaration
from nats3_dagster.documents.archives import Archive
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.spec_table import Setting, settings_of, to_body, to_document
from nats3_dagster_tests.support.commands import root_command

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = settings_of(ArchiveSpec)
NEEDED: dict[str, Any] = {"name": "a", "stream": "S", "bucket": "bucket"}
SPEC = ArchiveSpec(**NEEDED)
RANGES = [one for one in SETTINGS if one.most is not None and one.name not in DAGSTER_SETTINGS]


def options(command: str) -> dict[str, bool]:
    """The options of a command below `store`, and whether each is hidden."""
    parameters = root_command().commands["store"].commands[command].params
    return {name: getattr(one, "hidden", False) for one in parameters for name in one.opts}


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.name)
def test_a_setting_is_everywhere(one: Setting) -> None:
    create, change = options("create"), options("set")
    assert (create[one.option], change[one.option]) == (False, one.fixed is not None)
    assert (one.name in CHANGEABLE) == (one.fixed is None)
    assert one.body_key in CreateStoreJob.model_fields
    assert one.body_key in Archive.model_fields
    assert one.file_key in ARCHIVE_KEYS
    assert one.name in DAGSTER_SETTINGS or one.key in ArchiveDeclaration.model_fields
    assert one.name in ArchiveRow.__dataclass_fields__
    metadata = archive_metadata(SPEC)
    shown = {one.name, one.name.replace("max_", "capture_at_")} & {*metadata}
    assert bool(shown) == (one.name not in {"name", *DAGSTER_SETTINGS})
    pages = {name: (DOCS / f"{name}.md").read_text() for name in ("archives", "components")}
    assert f"`{one.file_key}`" in pages["archives"]
    assert one.name in DAGSTER_SETTINGS or one.key == one.file_key or f"`{one.key}`" in pages["components"]


@pytest.mark.parametrize("one", RANGES, ids=lambda one: one.name)
def test_a_number_out_of_its_range_is_refused_by_its_name(one: Setting) -> None:
    assert one.least is not None
    assert one.most is not None
    for value in (one.least, one.most):
        given = {**NEEDED, one.name: value}
        spec = ArchiveSpec(**given)
        declaration = ArchiveDeclaration(**NEEDED, **{one.key: value}).declaration()
        assert declaration is not None
        assert declaration.spec == spec
    for value in (one.least - 1, one.most + 1):
        with pytest.raises(
            OperatorError, match=rf"^{one.name} is {value}\. Use {one.least:,} to {one.most:,}$"
        ) as caught:
            ArchiveSpec(**{**NEEDED, one.name: value})
        assert caught.value.field == one.name


def test_documents_and_bodies_have_their_own_keys() -> None:
    spec = ArchiveSpec("a", "S", "bucket", mode="consumer", durable="mine", subjects=("a.>", ">"))
    assert spec.subjects == ()
    body = to_body(spec)
    assert (to_document(spec)["durable"], body["consumer"], "durable" in body) == ("mine", "mine", False)
    assert CreateStoreJob.model_validate(body).spec() == spec
