"""The command line of the process that maintains a store beside its brokers."""

import sys
from pathlib import Path

from siltstone.cli.runner_options import RunnerChoice
from siltstone.cli.serve.kept_process import WITH_PARENT
from siltstone.cli.serve.maintenance import maintenance_command
from siltstone.cli.store_options import StoreChoice


def test_the_process_gets_the_options_of_the_broker_and_no_admin_listeners() -> None:
    choice = StoreChoice(Path("s"), Path("c.toml"), {"buckets.0": "s3://b", "admin.listeners": "127.0.0.1:1"})
    runner = RunnerChoice("spark", "spark://host:7077", {"spark.executor.memory": "4g"})
    command = maintenance_command(choice, runner, "info", "json")
    assert command[0] == sys.executable
    assert command[3:] == [
        "maintain", "serve", WITH_PARENT, "--store", "s", "--config", "c.toml", "--set", "buckets.0=s3://b",
        "--set", "admin.listeners=off", "--runner", "spark", "--master", "spark://host:7077",
        "--conf", "spark.executor.memory=4g", "--log-level", "info", "--log-format", "json",
    ]  # fmt: skip
