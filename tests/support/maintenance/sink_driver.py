"""Runs the driver of one batch of a sink in a process of its own, which a test kills: ``python sink_driver.py JSON``.

The JSON has ``store``, ``topic``, ``sink``, ``batch``, ``first`` and ``count`` (its rows), ``mode`` (null for the one
that fits), ``dies_at`` (a step of the commit at which the process kills itself with SIGKILL) and ``waits_at``: at that
step it makes the file ``reached``, and waits for the file ``go``.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from support.maintenance.sinks import Sink, rows_of


def main(job: dict[str, Any]) -> None:
    def step(name: str) -> None:
        if name == job.get("waits_at"):
            Path(job["reached"]).touch()
            while not Path(job["go"]).exists():
                time.sleep(0.02)
        if name == job.get("dies_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    sink = Sink(Path(job["store"]), job["topic"], job["sink"], mode=job["mode"])
    half = job["count"] // 2
    tasks = rows_of(job["first"], half), rows_of(job["first"] + half, job["count"] - half)
    reports = sink.stage(job["batch"], *tasks)
    step("before")
    sink.commit(job["batch"], reports, on_step=step)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
