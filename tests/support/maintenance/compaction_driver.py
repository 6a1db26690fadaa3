"""A compaction driver in a process of its own, whose tasks can be held: ``python -m
support.maintenance.compaction_driver FOLDER``.

Each round's report is a line on stdout. Only the last round's tasks are held, in the middle of a write, before they
answer, or both.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from pathlib import Path

import msgspec

from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.spark.spark_runner import open_runner
from support.maintenance.compacting import compact
from support.maintenance.live_store import settings_at
from support.spark.held_tasks import Held, HeldInWrite, HoldingRunner


def parsed() -> Namespace:
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", help="the Spark to run on; threads of this process without it")
    parser.add_argument("--spark", type=json.loads, default={}, help="settings of Spark's own")
    parser.add_argument(
        "--in-write", type=Path, help="the gate's folder; tasks are held in the middle of a write"
    )
    parser.add_argument(
        "--before-answer", type=Path, help="the gate's folder; tasks are held before they answer"
    )
    parser.add_argument(
        "--rounds-before", type=int, default=0, help="rounds to carry out without holding any"
    )
    parser.add_argument("--lease-ms", type=int, default=120_000)
    return parser.parse_args()


def main() -> None:
    given = parsed()
    settings = settings_at(given.folder)
    compaction = msgspec.structs.replace(settings.compaction, lease_ms=given.lease_ms)
    runner = open_runner(given.master, given.spark) if given.master else InProcessRunner()
    with closing(runner), open_store(settings) as store:
        for _ in range(given.rounds_before):
            say(compact(store.context, runner, compaction))
        say(compact(store.context, holding(runner, given), compaction))


def holding(runner: Runner, given: Namespace) -> Runner:
    if given.in_write:
        runner = HoldingRunner(runner, given.in_write, HeldInWrite)
    if given.before_answer:
        runner = HoldingRunner(runner, given.before_answer, Held)
    return runner


def say(report: msgspec.Struct) -> None:
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
