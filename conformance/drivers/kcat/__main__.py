"""``python -m conformance.drivers.kcat``: see ``conformance.driving``."""

import re
import subprocess

from conformance.drivers.kcat.program import refusal
from conformance.drivers.kcat.scenarios import LACKS, PARTLY, SCENARIOS
from conformance.drivers.serving import Repertoire, serve


def version() -> str:
    told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) .*(librdkafka \S+)", told)
    return f"{found[1]} ({found[2]})" if found else told


if __name__ == "__main__":
    serve(Repertoire(version(), SCENARIOS, refusal, LACKS, PARTLY))
