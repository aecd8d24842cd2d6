"""The judge of archives of the mode `consumer`: what became of each message that the stream acknowledged.

Invariant: as in judge.py, it shares no code with what is tested.
"""

from collections.abc import Collection, Mapping

from nats3_dagster_tests.faults.judge import Archived, Finding
from nats3_dagster_tests.faults.workload import Key, Sent


def judge_taking(
    archived: Archived, sent: Mapping[Key, Sent], wanted: Collection[Key], gone: Collection[Key], *, exact: bool
) -> list[Finding]:
    """Each message of `wanted` is in exactly one live chunk as it was sent; one of `gone`, which nobody can have any
    more, may be lost instead, and is called so. With `exact` what the archive does not want is never called lost."""
    findings = list(archived.findings)
    lost: list[str] = []
    doubled, alarms = 0, 0
    for key, message in sent.items():
        copies, reasons = archived.messages.get(key, []), archived.reasons.get(key, [])
        doubled += len(copies) + len(reasons) > 1
        if key not in wanted:
            lost += [f"{key[1]} is archived and was not selected"] if copies else []
            alarms += bool(reasons) and reasons[0] != "unselected"
        elif copies:
            lost += [f"{key[1]} altered" for copy in copies if copy[:3] != message]
        elif not reasons:
            lost.append(f"{key[1]} nowhere")
        elif key not in gone or reasons[0] != "undelivered":
            lost.append(f"{key[1]} is called {reasons[0]}")
    if lost:
        findings.append(Finding("lost", len(lost), f"archive: {', '.join(lost[:4])}"))
    if doubled:
        findings.append(Finding("doubled", doubled, "archive: sequences in two chunks or gaps, or in both"))
    if exact and alarms:
        findings.append(Finding("silent", alarms, "archive: sequences that it does not want are called lost"))
    if strangers := archived.messages.keys() - sent.keys():
        findings.append(Finding("doubled", len(strangers), "archive: messages that the stream never had"))
    return findings
