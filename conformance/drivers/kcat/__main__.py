"""``python -m conformance.drivers.kcat``: see ``conformance.driving``."""

import re
import subprocess

from conformance.drivers.kcat import groups, producing, reading, secured
from conformance.drivers.kcat.program import refusal
from conformance.drivers.serving import Repertoire, serve


def version() -> str:
    told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) .*(librdkafka \S+)", told)
    return f"{found[1]} ({found[2]})" if found else told


if __name__ == "__main__":
    serve(
        Repertoire(
            version(),
            {**producing.SCENARIOS, **reading.SCENARIOS, **groups.SCENARIOS, **secured.SCENARIOS},
            refusal,
            {**reading.LACKS, **groups.LACKS, **secured.LACKS},
            {**producing.PARTLY, **groups.PARTLY},
        )
    )
