"""A program on a terminal of some width."""

import os
import pty
import re
import subprocess
import sys
import termios


def on_terminal(width: int, program: str) -> str:
    """What a program of Python shows on a terminal of this width; its line ends as in a file."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, width))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm"}
    shown = bytearray()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        while True:
            try:
                block = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            shown += block
    os.close(ours)
    assert process.returncode == 0, shown.decode()
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")
