"""The console on a store of 10,000 partitions and 100,000 objects: no page takes a second."""

import asyncio
import time
from typing import Any

import pytest

from siltstone.console.application import Console
from siltstone.console.facts import KeptFacts
from siltstone.console.history import TrafficHistory
from siltstone.console.pages import PAGES
from siltstone.console.runs import ChangeRuns
from siltstone.console.store import LIMITS, PRICES, PageCalls
from siltstone.console.views.silences import SeenSilences
from siltstone.console.visitors import Visitor
from siltstone.console.watchers import Watchers
from siltstone.metadata.image import MetadataImage
from siltstone.metadata_tables.moment import GroupCommit, Moment
from siltstone.offline.opening.settings import StoreSettings
from siltstone.offline.pressure import Measured
from siltstone.offline.settings import KindSettings
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
from support.console.asking import ask
from support.console.large_store import OBJECTS, PARTITIONS, large_store

PAGE_SECONDS_MAX = 1.0


class LargeStore:
    """What pages read, without a disk."""

    prices, limits, place, tail, runs_maintenance, trouble = PRICES, LIMITS, "--store x", "auto", True, ""
    settings = StoreSettings(folder="x", metadata="memory", buckets={0: "file:///x"})  # type: ignore[arg-type]
    kind_settings = KindSettings()

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.history = TrafficHistory()
        self.silences = SeenSilences(lambda _: None)
        self.runs = ChangeRuns(self.now_ms)
        self.facts = KeptFacts(SystemClock())
        self.watchers = Watchers(SystemClock(), seeded_randomness(1))
        self.context: Any = self
        self.metadata: Any = type("Metadata", (), {"read_only_note": ""})
        self._calls = PageCalls()

    def now_ms(self) -> int:
        return 1_000_000

    def space(self) -> Measured:
        return Measured()

    async def run(self, call: Any, *args: Any) -> Any:
        return await self._calls.run(call, *args)

    async def moment(self) -> Moment:
        commits = [
            GroupCommit(f"group-{number:05d}", f"topic-{number:05d}", 0, 500) for number in range(PARTITIONS)
        ]
        return Moment(self.image, self.now_ms(), commits=lambda: commits)


class Everybody:
    async def visitor_of(self, _: object) -> Visitor:
        return Visitor("ada", "t", may_change=True)


@pytest.mark.nightly
def test_wc14_no_page_takes_a_second(record_tried) -> None:
    slow: dict[str, float] = {}

    async def look() -> None:
        store = LargeStore(large_store())
        assert len(store.image.objects) == OBJECTS and len(store.image.topics) == PARTITIONS
        console = Console(store, Everybody(), PAGES, {"127.0.0.1"}.__contains__)  # type: ignore[arg-type]
        for page in PAGES:
            reads_data = "messages" in page.path or page.path in (
                "/sql/rows",
                "/sql/download",
                "/maintenance/plan",
                "/cost",
                "/cluster/failovers",
                "/cluster/balance",
            )
            if page.is_change or reads_data or page.path.startswith(("/objects/{object}", "/tables/{topic}")):
                continue
            path = page.path.replace(":path", "").format(
                topic="topic-00007", partition=0, group="group-00007"
            )
            for _ in range(2):
                begun = time.perf_counter()
                answer = await ask(console.application, path)
                took = time.perf_counter() - begun
            assert answer.status == 200, path
            record_tried("pages", 1)
            print(f"{took * 1000:7.1f} ms {len(answer.body):9,} bytes {path}")
            if took > PAGE_SECONDS_MAX:
                slow[path] = took

    asyncio.run(look())
    assert slow == {}
