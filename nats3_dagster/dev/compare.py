"""Comparing two streams message by message: the check at the end of the demo.

The rule kept here: it reads both streams with the plain client, one message after the other, and shares no code with
the path under test.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

_ADDED = re.compile(rb"(?:Nats3-[A-Za-z]+|Nats-Msg-Id): [^\r]*\r\n")
