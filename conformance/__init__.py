"""The client matrix: what ordinary Kafka clients can do with a broker, found by trying it. ``features`` lists what
is tried, ``clients`` lists the clients, and ``drivers`` has the scenarios of each client, which run in a process of
their own. ``driving`` exchanges lines with these processes, ``stage`` does for them what a client cannot do (restart
the broker, look at stored bytes), and ``report`` writes ``docs/conformance.md``. ``make conformance`` runs all of
it, and ``make test`` a short form (``tests/integration/test_clients.py``)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # as tests do: from support.x import y
