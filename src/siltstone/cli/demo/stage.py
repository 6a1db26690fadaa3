"""``Stage`` has the values that every step of the demo after the first needs."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.kafka_client import FlightProducer
from siltstone.cli.demo.story import Story
from siltstone.offline.tasks.runner import Runner
from siltstone.runtime.clock import Clock
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import NodeSettings


class Stage(msgspec.Struct, frozen=True):
    """``start_runner``: starts Spark at the first call, and returns the same runner afterwards. ``has_table``: the
    packages for tables are installed, or ``installing_tables`` appears when they are."""

    settings: NodeSettings
    story: Story
    clock: Clock
    broker: Broker
    producer: FlightProducer
    flights: list[Flight]
    start_runner: Callable[[], Runner]
    has_table: bool = False
    installing_tables: Path | None = None
