"""Texts of others in Markdown: what is shown is the text, and nothing but the text."""

import pytest
from markdown_it import MarkdownIt

from nats3_dagster.defs.assets.markdown import cell
from nats3_dagster.defs.assets.metadata import plan_table

SUBJECTS = [
    "orders.eu",
    "a|b",
    "||",
    "`a`",
    "a``b",
    "`",
    " a ",
    "![x](http://evil.example/a.png)",
    "[x](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "a\\|b",
    "**a** _b_",
    "| a | b |",
    "\\",
    "a\\",
    "&lt;",
    "http://a.example",
    "# a",
]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_is_code_in_a_table(subject: str) -> None:
    samples = [{"from": subject, "to": f"to.{subject}"}]
    text = plan_table({"read_subject": subject, "sample_subjects": samples, "notes": [subject, "b"], "messages": 5})
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows = [[], *([] for token in tokens if token.type == "tr_open")]
    inline = [token for token in tokens if token.type == "inline"]
    assert len(inline) == 2 * (len(rows) - 1), text
    shown = [child.content for token in inline for child in token.children or [] if child.type == "code_inline"]
    assert shown == [subject, subject, f"to.{subject}", subject, "b"], text
    kinds = {child.type for token in inline for child in token.children or []}
    assert kinds <= {"code_inline", "text"}, text


def test_control_characters_are_shown_by_their_escapes() -> None:
    assert cell("a\nb\r\0\x9b\ud800") == r"`a\nb\r\x00\x9b\ud800`"
    assert [cell(value) for value in (None, "", [], 5, True, ["a"])] == ["-", "-", "-", "5", "True", "`a`"]
