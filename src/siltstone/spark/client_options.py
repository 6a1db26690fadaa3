"""The options with which a read or a write of Spark connects to brokers: ``kafka.client.config``, or ``kafka.`` and a
name of librdkafka.

    kafka.client.config      a file that driver and executors have at the same path: the way for secrets
    kafka.sasl.password, …   the settings themselves, as notebooks have them from a store of secrets

They are taken out of the options before Spark gets to see them again, and a secret is a ``Secret`` from then on: no
plan, unit, position, manifest or report holds one. A literal secret still travels in the pickled reader or writer of
the tasks, which Spark may keep in files, so the log warns of it.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from siltstone.kafka_client.client_settings import (
    GROUPS,
    ClientSettings,
    settings_of_file,
    settings_of_mapping,
)
from siltstone.kafka_client.connection import Security
from siltstone.kafka_client.failures import LoginRefused
from siltstone.model.errors import InvalidRequest

PREFIX = "kafka."
FILE_OPTION = "kafka.client.config"

log = logging.getLogger(__name__)


class ClientFileMissing(InvalidRequest):
    """A process of Spark has no file of the name that the option says."""


class ClientOptionsRefused(InvalidRequest):
    """The options say twice how to connect."""


class ClientChoice(msgspec.Struct, frozen=True):
    """How a read or a write connects; without file and settings as SILTSTONE_CLIENT_CONFIG says in each process."""

    file: str = ""
    settings: ClientSettings | None = None

    def found(self) -> ClientSettings | None:
        """Returns the settings in this process; None: as its environment says. Raises ClientFileMissing,
        InvalidClientConfig."""
        if not self.file:
            return self.settings
        path = Path(self.file)
        if not path.exists():
            raise ClientFileMissing(
                f"option {FILE_OPTION}: this driver or executor has no {path}: put the file at that path on every "
                "machine, for example as a mounted secret"
            )
        return settings_of_file(path)

    def security(self) -> Security | None:
        """Returns what a ``Cluster`` is given. Raises what ``found`` does."""
        settings = self.found()
        return None if settings is None else Security(settings)


BY_ENVIRONMENT = ClientChoice()


@contextmanager
def logins_explained(choice: ClientChoice) -> Iterator[None]:
    """Adds to a refused login what a query with literal settings can do: they last as long as the query, where a file
    is read again for each connection."""
    try:
        yield
    except LoginRefused as refused:
        if choice.settings is None:
            raise
        raise LoginRefused(
            f"{refused}; options kafka.… last as long as their query: start it again with others, or name a file with "
            f"{FILE_OPTION}, which is read again for each connection"
        ) from refused


def take_client_options(given: Mapping[str, str]) -> tuple[ClientChoice, dict[str, str]]:
    """Returns how to connect, and the other options. Raises ClientOptionsRefused, InvalidClientConfig; no text has a
    value."""
    rest: dict[str, str] = {}
    named: dict[str, str] = {}
    file = ""
    for name, value in given.items():
        lower = name.lower()
        if lower == FILE_OPTION:
            file = value
        elif lower.startswith(PREFIX) and lower.removeprefix(PREFIX).startswith(GROUPS):
            named[lower.removeprefix(PREFIX)] = value
        else:
            rest[name] = value
    if file and named:
        raise ClientOptionsRefused(
            f"options {FILE_OPTION} and {PREFIX}{min(named)} both say how to connect: write all settings into the file"
        )
    if not named:
        return ClientChoice(file), rest
    settings = settings_of_mapping(named, "options kafka.…").travelling()
    if settings.has_secret:
        log.warning(
            "a password among the options travels to the executors in each task: better put it into a file that they "
            "have, and name that with option %s",
            FILE_OPTION,
        )
    return ClientChoice(settings=settings), rest
