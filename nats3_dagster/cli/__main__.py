"""`python -m nats3_dagster.cli` is `nats3`: how a command starts another one whatever is on the search path."""

import sys

from nats3_dagster.cli.main import main

sys.exit(main())
