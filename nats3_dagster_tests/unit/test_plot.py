"""The plot of an hour: an image that says what the counts are."""

import base64
import re
from xml.etree import ElementTree

from nats3_dagster.defs.assets.markdown import LONGEST, messages_per_minute

HOUR = "2026-11-21-07:00"


def image(*counts: list[int]) -> ElementTree.Element:
    text = messages_per_minute(HOUR, counts)
    assert text is not None
    match = re.fullmatch(r"!\[messages per minute\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", text)
    assert match is not None
    assert len(text) < LONGEST
    return ElementTree.fromstring(base64.b64decode(match[1]))


def test_the_outline_follows_the_sums_of_all_chunks() -> None:
    one, other = [0] * 60, [0] * 60
    one[0], one[30], other[30], other[59] = 10, 500, 500, 1
    svg = image(one, other)
    assert [text.text for text in svg if text.tag.endswith("text")] == ["07:00", "most 1,000 a minute"]
    assert svg[0].attrib["d"] == "M0 64V63h8V64h232V0h8V64h224V63h8V64z"


def test_an_hour_of_60_heights_is_still_shown_inline() -> None:
    image([n * 1_000_003_000 for n in range(61, 1, -1)])


def test_nothing_to_show() -> None:
    assert messages_per_minute(HOUR, []) is None
