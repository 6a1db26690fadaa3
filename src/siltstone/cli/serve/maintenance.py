"""The process of ``siltstone maintain serve`` beside a broker or several (``siltstone serve --with-maintenance``)."""

import logging
from collections.abc import Sequence

from siltstone.cli.runner_options import RunnerChoice
from siltstone.cli.serve.kept_process import KeptProcess, own_command
from siltstone.cli.store_options import StoreChoice
from siltstone.server.settings.admin import OFF

log = logging.getLogger(__name__)


def maintenance_command(
    choice: StoreChoice, runner: RunnerChoice, log_level: str, log_format: str
) -> list[str]:
    """The command line of the process. It has no admin listeners, because their address is the broker's."""
    command = own_command(("maintain", "serve"), choice, {"admin.listeners": OFF})
    command += ["--runner", runner.name, "--master", runner.master]
    for name, value in runner.settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "--log-level", log_level, "--log-format", log_format]


def kept_maintenance(command: Sequence[str]) -> KeptProcess:
    """The process, not yet started. That it dies is said in the log of the broker, which serves on."""
    return KeptProcess(
        "maintenance",
        command,
        consequence=". The broker is not affected",
        on_started=lambda number: log.info("maintenance runs in process %d", number),
    )
