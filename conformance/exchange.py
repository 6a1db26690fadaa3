"""The table of writers and readers, with every codec, on one broker."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from conformance.brokers.broker import Broker, OpenBroker
from conformance.clients import Client
from conformance.column import RUN, SETTINGS
from conformance.driving import Driver
from conformance.features import EXCHANGE_READ, EXCHANGE_WRITE
from conformance.outcome import Outcome, Result
from conformance.raw_broker import announced_apis, stored_batches
from conformance.stage import Stage
from conformance.trying import Trial

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def exchange(clients: Sequence[Client], open_broker: OpenBroker) -> list[Result]:
    """The results of a reader; their feature is the id of the writer."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="siltstone-exchange-")))
        (folder / "broker").mkdir()
        broker = running.enter_context(open_broker(SETTINGS, folder / "broker"))
        drivers = {}
        for client in clients:
            drivers[client.id] = Driver(list(client.command), client.environment, folder / f"{client.id}.log")
            running.callback(drivers[client.id].close)
        return _exchange(broker, drivers)


def _exchange(broker: Broker, drivers: dict[str, Driver]) -> list[Result]:
    stage = Stage(broker)
    trial = Trial(broker.bootstrap, stage, announced_apis(broker.bootstrap))
    results: list[Result] = []
    for writer, its_driver in drivers.items():
        topic = f"exchange-{writer}-{RUN}"
        stage.create_topic(topic, len(CODECS))
        written = trial.try_feature(writer, its_driver, EXCHANGE_WRITE, topic)
        stored = [_stored(broker, topic, partition) for partition in range(len(CODECS))]
        for reader, driver in drivers.items():
            if written.outcome is not Outcome.WORKS or stored != [*CODECS]:
                said = written.detail or f"stored with {', '.join(stored)}"
                results.append(Result(reader, writer, Outcome.FAILS, f"not written: {said}"))
                continue
            read = trial.try_feature(reader, driver, EXCHANGE_READ, topic)
            results.append(Result(reader, writer, read.outcome, read.detail, read.seconds))
    return results


def _stored(broker: Broker, topic: str, partition: int) -> str:
    codecs = {batch.codec for batch in stored_batches(broker.bootstrap, topic, partition)}
    return "/".join(sorted(codecs)) or "nothing"
