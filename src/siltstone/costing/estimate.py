"""The estimate: what each topic costs a month, by bytes that are stored and work that was observed. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from siltstone.costing.observed import ObservedWork, observe
from siltstone.foundation.quantity_words import counted, duration_words, seconds_words
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry
from siltstone.model.limits import DAY_MS, GIB, HOUR_MS, MINUTE_MS
from siltstone.model.objects import ObjectState

MONTH_MS = 30 * DAY_MS
MILLION = 1_000_000
COUNTED_MS_MIN = HOUR_MS
"""A store that is younger says too little of a month: its first minutes are a first load, or a try."""

WINDOW_MS_MIN = 10 * MINUTE_MS
"""The same for a store whose log no longer reaches back to its beginning: it is busy, so ten minutes tell much."""


class CostPrices(msgspec.Struct, frozen=True):
    """Prices in one currency: of a million requests that put, copy or list, and of a million that get; of a GiB that is
    stored for a month; of a processor's core for an hour."""

    writes_per_million: float
    reads_per_million: float
    storage_per_gib: float
    core_per_hour: float


class CostRow(msgspec.Struct, frozen=True):
    """What a topic costs a month; ``topic`` None: what belongs to no topic that exists. ``stored_bytes`` counts each
    copy. ``requests`` is None while the store is too young to say."""

    topic: str | None
    stored_bytes: int
    storage: float
    requests: float | None
    compute: float

    @property
    def total(self) -> float | None:
        """None while the requests are not known."""
        return None if self.requests is None else self.known

    @property
    def known(self) -> float:
        """Storage, compute, and requests where they are known."""
        return self.storage + self.compute + (self.requests or 0.0)


class CostEstimate(msgspec.Struct, frozen=True):
    """``rows``: the dearest first. ``saved_storage``: a month's storage of the bytes that maintenance has freed in the
    window, and ``saved_reads`` the requests that one read of everything needs fewer, since objects were merged."""

    rows: tuple[CostRow, ...]
    work: ObservedWork
    saved_storage: float
    saved_reads: float
    assumptions: tuple[str, ...]

    @property
    def total(self) -> float | None:
        return total_of(self.rows)

    @property
    def too_young(self) -> str:
        """Why requests and jobs of a month are not known; empty when they are."""
        if _tells_of_a_month(self.work):
            return ""
        return f"too young to say (counted for {seconds_words(self.work.window_ms // 1000)})"


def total_of(rows: Iterable[CostRow]) -> float | None:
    """Returns what the rows cost a month together; None while the requests of one are not known."""
    totals = [each.total for each in rows]
    return None if None in totals else sum(each for each in totals if each is not None)


def estimate_cost(
    image: MetadataImage,
    entries: Iterable[tuple[int, LogEntry]],
    now_ms: int,
    prices: CostPrices,
    cores: int = 0,
) -> CostEstimate:
    """Estimates what the store costs. ``cores``: of all brokers; 0 stands for one core of each live broker."""
    topics_of = topics_of_streams(image)
    work = observe(entries, topics_of.get, now_ms)
    stored = stored_bytes(image, topics_of)
    cores = cores or sum(node.is_live for node in image.nodes.values())
    is_told = _tells_of_a_month(work)
    month = MONTH_MS / work.window_ms if is_told else 0.0
    job_hours = sum(work.job_seconds.values()) / 3600 * month
    compute = (cores * MONTH_MS / HOUR_MS + job_hours) * prices.core_per_hour
    share = _shares(work.put_bytes if any(work.put_bytes.values()) else stored)
    topics = stored.keys() | share.keys() | work.writes.keys() | work.reads.keys()
    rows = [
        CostRow(
            topic,
            stored.get(topic, 0),
            stored.get(topic, 0) / GIB * prices.storage_per_gib,
            month
            * (
                (work.writes.get(topic, 0) + work.shared_writes * share.get(topic, 0))
                * prices.writes_per_million
                + work.reads.get(topic, 0) * prices.reads_per_million
            )
            / MILLION
            if is_told
            else None,
            compute * share.get(topic, 0),
        )
        for topic in topics
    ]
    rows.sort(key=lambda each: (-each.known, each.topic or ""))
    return CostEstimate(
        tuple(rows),
        work,
        work.freed_bytes / GIB * prices.storage_per_gib,
        work.merged_objects * prices.reads_per_million / MILLION,
        tuple(_assumptions(work, cores, prices)),
    )


def _tells_of_a_month(work: ObservedWork) -> bool:
    return work.window_ms >= (COUNTED_MS_MIN if work.is_whole else WINDOW_MS_MIN)


def topics_of_streams(image: MetadataImage) -> dict[int, str]:
    """Returns the topic of each stream of a topic that exists."""
    return {
        stream_id: topic.name
        for topic in image.topics.values()
        for each in topic.partitions
        for stream_id in (each.data_stream_id, each.meta_stream_id)
    }


def stored_bytes(image: MetadataImage, topics_of: Mapping[int, str]) -> dict[str | None, int]:
    """Returns the bytes of all objects by topic, each copy counted. The index of an object is divided among its topics
    by their bytes; bytes of deleted topics, and of objects that wait for their deletion, are those of None."""
    found: defaultdict[str | None, int] = defaultdict(int)
    for one in image.objects.values():
        copies = len(one.bucket_ids)
        if one.state is not ObjectState.COMMITTED:
            found[None] += one.size_bytes * copies
            continue
        left, total = one.size_bytes, sum(held.size_bytes for held in one.ranges)
        for held in one.ranges:
            topic = topics_of.get(held.stream_id)
            size_bytes = one.size_bytes * held.size_bytes // total if total else 0
            found[topic] += size_bytes * copies
            left -= size_bytes
        found[None] += left * copies
    return dict(found)


def _shares(amounts: Mapping[str | None, int]) -> dict[str | None, float]:
    total = sum(amounts.values())
    return {topic: amount / total for topic, amount in amounts.items()} if total else {None: 1.0}


def _assumptions(work: ObservedWork, cores: int, prices: CostPrices) -> Iterable[str]:
    yield (
        f"a month has 30 days; a GiB costs {prices.storage_per_gib:g}, a million puts {prices.writes_per_million:g}, "
        f"a million gets {prices.reads_per_million:g}, and an hour of a core {prices.core_per_hour:g} (settings "
        "admin.prices.*)"
    )
    yield "what is stored stays as large as it is now"
    if _tells_of_a_month(work):
        yield (
            f"requests and jobs continue as in the {duration_words(work.window_ms)} that the metadata log still "
            "tells; an object is one put, or its parts and two more requests"
        )
    else:
        needed = duration_words(COUNTED_MS_MIN if work.is_whole else WINDOW_MS_MIN)
        yield (
            f"the store is too young for requests and jobs of a month, so they are left out: they were counted for "
            f"{seconds_words(work.window_ms // 1000)}, and it takes {needed}"
        )
    yield "reads of clients from the bucket are in no record: see the metric siltstone_store_requests_total"
    yield (
        f"brokers use {counted(cores, 'core')} all the time, maintenance one while a job runs; compute is divided by "
        "the bytes that were put, and by the stored ones if none were"
    )
