"""Tries the features of one client, one after the other, on brokers that no other client uses meanwhile."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from conformance.brokers.broker import BrokerSettings, OpenBroker
from conformance.clients import Client
from conformance.driving import Driver
from conformance.features import IDLE_LIMIT_MS, Feature
from conformance.outcome import Outcome, Result
from conformance.raw_broker import announced_apis
from conformance.secured import new_grounds
from conformance.stage import Stage
from conformance.trying import Trial

SETTINGS = BrokerSettings()
IDLE_LIMITED = msgspec.structs.replace(SETTINGS, connections_max_idle_ms=IDLE_LIMIT_MS)
RUN = f"{int(time.time()):x}"
"""A broker that was started by others may hold topics and groups of earlier runs."""


ORDINARY, IDLE, SECURED = "broker", "idle-limited", "secured"
"""The kinds of brokers that features are tried on."""


def kind_of_broker(feature: Feature) -> str:
    return SECURED if feature.secured else IDLE if feature.idle_limited else ORDINARY


class Column:
    """``try_feature`` starts the brokers and the driver at first use; leaving ``open_column`` ends all of them."""

    def __init__(self, client: Client, trials: Callable[[str], Trial], folder: Path, is_given: bool) -> None:
        self._client = client
        self._trials = trials
        self._is_given = is_given
        self._tries = 0
        self.driver = Driver(list(client.command), client.environment, folder / f"{client.id}.log")

    def try_feature(self, feature: Feature) -> Result:
        if self._is_given and (feature.idle_limited or feature.restarts_broker or feature.secured):
            return Result(self._client.id, feature.id, Outcome.NOT_RUN, "needs a broker of its own")
        self._tries += 1
        name = f"{feature.id.replace('_', '-')}-{self._client.id}-{RUN}-{self._tries}"
        trial = self._trials(kind_of_broker(feature))
        return trial.try_feature(self._client.id, self.driver, feature, name)


class Trials:
    """At most one broker of each kind, which is started at its first use."""

    def __init__(self, open_broker: OpenBroker, folder: Path, running: ExitStack) -> None:
        self._open_broker = open_broker
        self._folder = folder
        self._running = running
        self._begun: dict[str, Trial] = {}

    def __call__(self, kind: str) -> Trial:
        if kind not in self._begun:
            folder = self._folder / kind
            folder.mkdir()
            grounds = new_grounds(folder / "grounds") if kind == SECURED else None
            settings = msgspec.structs.replace(IDLE_LIMITED if kind == IDLE else SETTINGS, grounds=grounds)
            broker = self._running.enter_context(self._open_broker(settings, folder))
            announced = announced_apis(broker.bootstrap)
            self._begun[kind] = Trial(broker.bootstrap, Stage(broker, grounds), announced)
        return self._begun[kind]


@contextmanager
def running_trials(open_broker: OpenBroker) -> Iterator[Trials]:
    prefix = "siltstone-conformance-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder,
        ExitStack() as running,
    ):
        yield Trials(open_broker, Path(folder), running)


@contextmanager
def open_column(client: Client, trials: Callable[[str], Trial], is_given: bool = False) -> Iterator[Column]:
    with tempfile.TemporaryDirectory(prefix="siltstone-driver-") as folder:
        column = Column(client, trials, Path(folder), is_given)
        try:
            yield column
        finally:
            column.driver.close()


def try_client(
    client: Client,
    features: Iterable[Feature],
    open_broker: OpenBroker,
    is_given: bool,
    told: Callable[[Result], None],
) -> tuple[str, list[Result]]:
    """Returns the version of the client and the result of each feature, and reports each result as soon as it is
    known."""
    missing = client.missing()
    if missing:
        return "", [Result(client.id, feature.id, Outcome.NOT_RUN, missing) for feature in features]
    results: list[Result] = []
    with running_trials(open_broker) as trials, open_column(client, trials, is_given) as column:
        version = trials(ORDINARY).version(column.driver)
        for feature in features:
            results.append(column.try_feature(feature))
            told(results[-1])
    return version, results
