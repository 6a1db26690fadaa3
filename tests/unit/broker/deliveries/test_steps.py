"""How much memory records in flight take; the steps themselves: ``tests/property/broker/test_share_deliveries.py``."""

import tracemalloc

from siltstone.broker.deliveries.progress import ShareProgress
from siltstone.broker.deliveries.steps import (
    Acknowledged,
    AcknowledgeType,
    Acquisition,
    FoundOffsets,
    acknowledge,
    acquire,
)
from siltstone.model.limits import MIB

LOCKS, PARTITIONS, BATCH = 2_000, 10, 10


def filled() -> ShareProgress:
    """As many records in flight as may be, acquired batch by batch by members in turn; of each batch the first record
    is accepted."""
    progress = ShareProgress(0)
    for number, first in enumerate(range(0, LOCKS, BATCH)):
        batch = FoundOffsets(first, first + BATCH, ((first, first + BATCH),))
        member = f"member-{number % 7}"
        progress, ranges = acquire(progress, batch, Acquisition(member, 1_000.0 + number, BATCH, LOCKS))
        assert [(each.first, each.end) for each in ranges] == [(first, first + BATCH)]
        accepted = [Acknowledged(first, first + 1, [AcknowledgeType.ACCEPT])] if number else []
        after = acknowledge(progress, member, accepted, 5, 0.0)
        assert isinstance(after, ShareProgress)
        progress = after
    return progress


def test_sh14_a_million_acquired_records_take_less_than_64_mib() -> None:
    tracemalloc.start()
    try:
        kept = [filled() for _ in range(PARTITIONS)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    of_a_million = used * 1_000_000 / (len(kept) * LOCKS)
    assert of_a_million < 64 * MIB, of_a_million
