"""What a person does in the Dagster UI, by clicks: see the hours, read one, replay some, meet a failed check."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from nats3_dagster_tests.browser.conftest import fresh_page, shoot
from nats3_dagster_tests.browser.stage import ARCHIVE, BUCKET, CAPTURED, FAILED, Stage, staged
from nats3_dagster_tests.support.dagster.processes import LOCATION, ROOT
from nats3_dagster_tests.support.dagster.states import HEALTHY, LATE, LOSSY, PAUSED
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

# Twice what they take where the machine has something else to do.
pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.timeout(300), pytest.mark.steady_hour(150)]
expect.set_options(timeout=20_000)
REPLAYED = slice(1, 4)
TO_GO_ON = f"Resume archive {ARCHIVE}, in a shell: nats3 store resume {ARCHIVE}"


@pytest.fixture(scope="module")
def stage(browser: Browser, server_folder: Path) -> Iterator[Stage]:
    """Asked for after the browser: without one there is nothing to set up."""
    with staged(Path(tempfile.mkdtemp(prefix="stage-", dir=server_folder))) as made:
        yield made


def opened(page: Page, stage: Stage, asset: str, view: str, archive: str = ARCHIVE) -> None:
    page.goto(f"{stage.dagster.url}/assets/{archive}/{asset}?view={view}")


def counted(page: Page, status: str, count: int) -> None:
    """The filter above the hours says how many have this status."""
    expect(page.get_by_text(f"{status} ({count})", exact=True)).to_be_visible()


def hour_of_list(page: Page, hour: str) -> Locator:
    """An hour in the list at the left; the bar above it has the first and the last one as well."""
    return page.locator("[class*=assetListRow]").filter(has_text=hour)


def launched(page: Page, stage: Stage) -> str:
    """Choose three hours, say where to publish, and launch; the address of the backfill's page."""
    hours = stage.hours[REPLAYED]
    opened(page, stage, "replay", "partitions")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog").filter(has_text="Launch runs to materialize")
    choice = dialog.locator("input[type=text]")
    choice.fill(f"[{hours[0]}...{hours[-1]}]")
    choice.press("Enter")
    expect(dialog.get_by_text("3 partitions", exact=True)).to_be_visible()
    dialog.get_by_text("Config", exact=True).click()
    dialog.get_by_role("button", name="Add config").click()
    editor = page.get_by_role("dialog").filter(has_text="Config Editor")
    editor.locator(".CodeMirror").click()
    page.keyboard.insert_text(
        f'ops:\n  {ARCHIVE}__replay:\n    config:\n      read_subject: "orders.>"\n'
        '      write_subject: "replay.orders.>"\n      create_stream: REPLAYED\n'
    )
    expect(editor.get_by_text("No errors")).to_be_visible()
    editor.get_by_role("button", name="Save config").click()
    expect(dialog.get_by_text("Config saved")).to_be_visible()
    launch = dialog.get_by_role("button", name="Launch backfill")
    launch.scroll_into_view_if_needed()
    choice.evaluate("field => {field.style.scrollMarginTop = '45px'; field.scrollIntoView({block: 'nearest'})}")
    shoot(page, "replay")
    launch.click()
    page.get_by_role("link", name="View", exact=True).click()
    page.wait_for_url("**/runs/b/*")
    expect(page.get_by_text(f"{hours[0]}...{hours[-1]}")).to_be_visible()
    return page.url


@pytest.fixture(scope="module", autouse=True)
def backfill(browser: Browser, stage: Stage) -> str:
    """The page of a backfill that replays three hours, launched by clicks. It comes first: Dagster looks after
    backfills every 30 s, and meanwhile the other tests have something to do."""
    with fresh_page(browser) as page:
        return launched(page, stage)


def test_the_hours_of_an_archive(page: Page, stage: Stage) -> None:
    opened(page, stage, "chunks", "partitions")
    hours = len(stage.partitions())
    missing = hours - len(CAPTURED) - len(FAILED)
    for status, count in (("Materialized", len(CAPTURED)), ("Failed", len(FAILED)), ("Missing", missing)):
        counted(page, status, count)
    # The bar: a stretch for each status, as wide as its share. What is missing is left blank.
    stretches = page.locator("[class*=PartitionStatusBar_colorSpan]")
    drawn = stretches.evaluate_all(
        "all => all.map(one => [one.style.background, parseFloat(one.closest('div[style*=width]').style.width)])"
    )
    assert [colour for colour, _ in drawn] == ["var(--color-accent-green)", "var(--color-accent-red)"]
    shares = [100 * len(CAPTURED) / hours, 100 * len(FAILED) / hours]
    assert [width for _, width in drawn] == pytest.approx(shares, abs=0.01)
    shoot(page, "hours")
    page.get_by_text("Materialized (").click()
    page.get_by_text("Missing (").click()
    for number, hour in enumerate(stage.hours):
        expect(hour_of_list(page, hour)).to_be_visible(visible=number in FAILED)
    hour_of_list(page, stage.hours[FAILED[0]]).click()
    expect(page.get_by_text("failed, and did not materialize this asset")).to_be_visible()
    page.get_by_text("View logs").click()
    expect(page.get_by_text("Nothing listens for NATS at").first).to_be_visible()


def test_an_hour_with_its_metadata_and_plot(page: Page, stage: Stage) -> None:
    hour = stage.hours[2]
    opened(page, stage, "chunks", "partitions")
    hour_of_list(page, hour).click()
    rows = page.get_by_role("row")
    # By the whole text of the row: the table of chunks, drawn a little later, has a column of this name as well.
    count = re.compile(rf"^messages\s*{len(stage.messages[hour])}$")
    expect(rows.filter(has_text=count)).to_be_visible()
    expect(rows.filter(has=page.get_by_text("dagster/uri", exact=True))).to_contain_text(f"s3://{BUCKET}/archive=")
    # What the catalog sensor knows an event by is not for people.
    for mark in ("archive_id", "revision", "from_catalog"):
        expect(page.get_by_text(mark, exact=True)).to_have_count(0)
    plot = page.get_by_role("img", name=re.compile("messages per minute"))
    plot.scroll_into_view_if_needed()
    expect(plot).to_be_visible()
    # Not only there, but drawn.
    assert plot.evaluate("image => image.complete && image.naturalWidth") > 100
    shoot(page, "materialization")


def test_every_check_of_a_healthy_archive_is_evaluated(page: Page, stage: Stage) -> None:
    """A capture evaluates two of them; the daemon asks for the third."""
    opened(page, stage, "chunks", "checks")
    expect(page.get_by_text("chunks_intact", exact=True).first).to_be_visible()
    expect(page.get_by_text("Not evaluated")).to_have_count(0, timeout=180_000)
    shoot(page, "checks")


def test_a_check_that_fails(page: Page, stage: Stage) -> None:
    key = damage(stage, stage.hours[CAPTURED[-1]])
    opened(page, stage, "chunks", "checks")
    page.get_by_text("chunks_intact", exact=True).first.click()
    expect(page.get_by_text("Objects are in the store and hold")).to_be_visible()
    # It is the detail's button that runs this check; the other runs all.
    page.get_by_role("button").filter(has_text=re.compile("^Execute$")).click()
    expect(page.get_by_text(f"1 of {len(CAPTURED)} chunks verified are damaged")).to_be_visible(timeout=90_000)
    expect(page.get_by_text("Failed", exact=True).first).to_be_visible()
    shoot(page, "failed-check")
    page.get_by_text("[Show Markdown]").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"{key} has SHA-256 ")


@pytest.fixture(scope="module")
def checked(stage: Stage) -> None:
    """All checks of the archives in states are evaluated."""
    assert stage.launch("checks", {}) == "SUCCESS"


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize(
    ("state", "freshness", "results", "said"),
    [
        (HEALTHY, "Passing", "4", "No limit of the stream deletes messages"),
        (LATE, "Warning", "13", re.compile(r"It waits for [23]\.\d hours, and a capture is due after 60 s")),
        (LOSSY, "Passing", "13", "The stream has deleted 50 sequences that were not captured"),
        (PAUSED, "Passing", "13", re.compile("^Paused: nothing is captured")),
    ],
)
def test_an_archive_in_each_state(
    page: Page, stage: Stage, state: str, freshness: str, results: str, said: str | re.Pattern[str]
) -> None:
    """Freshness and checks on one page, as docs/dagster-ui.md shows them. `results`: how many checks fail and pass."""
    page.set_viewport_size({"width": 1700, "height": 900})
    opened(page, stage, "chunks", "overview", archive=state)
    for name, value in (("Freshness policy", freshness), ("Latest check results", results), ("Row count", "60")):
        shown = page.get_by_text(name, exact=True).first.locator("..")
        # The daemon evaluates freshness every 30 s.
        expect(shown).to_have_text(f"{name}{value}", timeout=90_000)
    shoot(page, f"state-{state}", clip={"x": 236, "y": 0, "width": 1464, "height": 240})
    opened(page, stage, "chunks", "checks", archive=state)
    page.get_by_text("capture_keeps_up", exact=True).first.click()
    expect(page.get_by_text(said).first).to_be_visible()


def test_the_editor_asks_where_a_replay_publishes(page: Page, stage: Stage) -> None:
    opened(page, stage, "replay", "partitions")
    page.get_by_role("button", name="Materialize").first.click()
    # The dialog that takes a range: of an asset that needs a config there would be none.
    dialog = page.get_by_role("dialog").filter(has_text="Launch runs to materialize")
    dialog.get_by_text("Config", exact=True).click()
    dialog.get_by_role("button", name="Add config").click()
    editor = page.get_by_role("dialog").filter(has_text="Config Editor")
    editor.locator(".CodeMirror").click()
    page.keyboard.insert_text(f"ops:\n  {ARCHIVE}__replay:\n    config:\n      rate: 500.0\n")
    expect(editor.get_by_text('Missing required config entry "write_subject"')).to_be_visible()
    expect(editor.get_by_role("button", name="Save config")).to_be_disabled()
    shoot(page, "missing-config")


def test_a_pause_is_seen(page: Page, stage: Stage) -> None:
    opened(page, stage, "chunks", "checks")
    page.get_by_text("capture_keeps_up", exact=True).first.click()
    waits = r"It waits for \d+\.\d hours, and a capture is due after 60 s\. "
    paused = re.compile(f"^Paused: nothing is captured. No limit of the stream deletes messages. {waits}{TO_GO_ON}$")
    # The sensor has said so once. Since then a capture has failed, and with it the check that belonged to its run.
    page.get_by_role("button").filter(has_text=re.compile("^Execute$")).click()
    expect(page.get_by_text(paused)).to_be_visible(timeout=90_000)
    shoot(page, "paused")


def test_a_run_of_a_shell_is_in_the_list_of_its_job(page: Page, stage: Stage) -> None:
    before = {run["id"] for run in stage.dagster.runs()}
    command = [Path(sys.executable).with_name("dagster"), "job", "execute", "-m", "nats3_dagster.definitions"]
    environment = {**os.environ, **stage.stack.endpoints.environment, "DAGSTER_HOME": str(stage.dagster.home)}
    subprocess.run([*command, "-j", "checks"], env=environment, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (run,) = [run for run in stage.dagster.runs() if run["jobName"] == "checks" and run["id"] not in before]
    page.goto(f"{stage.dagster.url}/locations/{LOCATION}/jobs/checks/runs")
    expect(page.get_by_role("link", name=run["id"][:8])).to_be_visible()
    shoot(page, "runs-of-a-job")


def test_three_hours_are_replayed(page: Page, stage: Stage, backfill: str) -> None:
    page.goto(backfill)
    expect(page.get_by_text("100% completed")).to_be_visible(timeout=150_000)
    opened(page, stage, "replay", "partitions")
    counted(page, "Materialized", 3)
    hours = stage.hours[REPLAYED]
    expected = [m for hour in hours for m in stage.messages[hour]]
    with Wire(stage.stack.nats.url) as wire:
        back = [(m.subject, m.data) for m in wire.messages("REPLAYED")]
    assert back == [(f"replay.{m.subject}", m.data) for m in expected]
    assert len({run["id"] for run in stage.dagster.runs() if "dagster/backfill" in run["tags"]}) == 1


def test_a_capture_from_a_shell_turns_the_bar_green(page: Page, stage: Stage) -> None:
    opened(page, stage, "chunks", "partitions")
    counted(page, "Failed", len(FAILED))
    in_a_shell(stage, "store", "run", ARCHIVE, "--all")
    # Nobody clicks. The open hour counts as well: nothing of it waits.
    expect(page.get_by_text(f"Materialized ({len(stage.partitions())})", exact=True)).to_be_visible(timeout=60_000)
    counted(page, "Missing", 0)
    counted(page, "Failed", 0)
    stretches = page.locator("[class*=PartitionStatusBar_colorSpan]")
    assert stretches.evaluate_all("all => all.map(one => one.style.background)") == ["var(--color-accent-green)"]


def test_a_deleted_archive_is_gone_from_the_assets(page: Page, stage: Stage) -> None:
    sealed = page.get_by_role("link", name=f"{ARCHIVE} / sealed")
    page.goto(f"{stage.dagster.url}/assets")
    expect(sealed).to_be_visible()
    in_a_shell(stage, "store", "delete", ARCHIVE, "--yes")

    def others_are_listed() -> bool:
        page.goto(f"{stage.dagster.url}/assets")
        expect(page.get_by_role("link", name=f"{HEALTHY} / chunks")).to_be_visible()
        return not sealed.is_visible()

    eventually(others_are_listed, "the assets are gone", 60)


def in_a_shell(stage: Stage, *words: str) -> None:
    """Run a command of nats3 as somebody beside Dagster does."""
    environment = {**os.environ, **stage.stack.endpoints.environment, "NATS3_DAGSTER_URL": stage.dagster.url}
    command = [sys.executable, "-m", "nats3_dagster.cli", *words]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def damage(stage: Stage, hour: str) -> str:
    """Change one bit of the hour's object, behind everybody's back; its key."""
    at = stage.stack.endpoints
    store = boto3.client(
        "s3",
        endpoint_url=at.s3_endpoint,
        region_name=at.s3_region,
        aws_access_key_id=at.s3_access_key_id,
        aws_secret_access_key=at.s3_secret_access_key,
    )
    folder = f"archive={ARCHIVE}/date={hour[:10]}/hour={hour[11:13]}/"
    (key,) = [item["Key"] for item in store.list_objects_v2(Bucket=BUCKET, Prefix=folder)["Contents"]]
    body = bytearray(store.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    body[len(body) // 2] ^= 1
    store.put_object(Bucket=BUCKET, Key=key, Body=bytes(body))
    store.close()
    return key
