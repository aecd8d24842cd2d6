"""A real browser: the system's Chromium, driven by playwright.

The rule kept here: nothing is waited for by the clock, and no page reaches anything but this machine. Where there is no
browser, tests are skipped with the reason; in CI that is a failure.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    # Dagster's page asks for a script of its maker's: no name is resolved, and only this machine has an address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
# Spinners and skeletons of a page that waits are drawn 60 times a second by the processor.
_STILL = "*, *::before, *::after { animation: none !important; transition: none !important; }"
# Read now: tests do not see the settings of the machine.
_PICTURES = os.environ.get("NATS3_SCREENSHOTS")


def _chromium(root: Path) -> str | None:
    """Chromium's program: CHROMIUM, what scripts/chromium.sh found, or what the system has."""
    linked = root / ".nats3" / "bin" / "chromium"
    asked = (os.environ.get("CHROMIUM"), str(linked), "chromium", "chromium-browser", "google-chrome", _MAC)
    return next((found for name in asked if name and (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Playwright runs an event loop in this thread until the module ends: no test of it can use `asyncio.run`."""
    program = _chromium(request.config.rootpath)
    if program is None:
        why = "there is no Chromium: run make test, or set CHROMIUM"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield running
        running.close()


@contextmanager
def fresh_page(browser: Browser) -> Iterator[Page]:
    """A page as everybody sees it: UTC, a window of 1400x900, and 20 s for whatever it is to show."""
    context = browser.new_context(
        viewport={"width": 1400, "height": 900}, timezone_id="UTC", locale="en-GB", reduced_motion="reduce"
    )
    context.set_default_timeout(20_000)
    context.add_init_script(f"""document.addEventListener("DOMContentLoaded", () => {{
        const style = document.createElement("style");
        style.textContent = {json.dumps(_STILL)};
        document.head.append(style);
    }});""")
    yield context.new_page()
    context.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of the test's own."""
    with fresh_page(browser) as opened:
        yield opened


def shoot(page: Page, name: str, clip: FloatRect | None = None) -> None:
    """Save what is seen now, or a part of it, in the folder that NATS3_SCREENSHOTS names, if it names one."""
    if _PICTURES:
        page.screenshot(path=Path(_PICTURES) / f"{name}.png", animations="disabled", caret="hide", clip=clip)
