"""A transaction that is open for longer than its producer may ask for is a finding, once and with what to do."""

from collections.abc import Iterator

import pytest

from siltstone.kafka_protocol.records.control import Outcome
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind, Severity
from siltstone.maintenance.checking.repair_plan import ADVICE
from siltstone.maintenance.checking.transaction_check import OPEN_MS_MAX
from siltstone.model.limits import MINUTE_MS
from siltstone.scanning import reading
from support.maintenance.keyed_world import keyed_world
from unit.scanning.test_transactions import PLAIN, Written


@pytest.fixture
def written() -> Iterator[Written]:
    reading.INDEXES.clear()  # another world's objects have the same ids
    with keyed_world() as world:
        yield Written(world)


def texts(written: Written) -> list[str]:
    found = check(written.world.context).findings
    assert {each.kind for each in found} <= {FindingKind.TRANSACTION_OPEN}
    assert all(each.severity is Severity.WARNING and each.stream_id == written.stream for each in found)
    return [each.text for each in found]


def test_tp54_what_is_open_for_longer_than_any_time_out_is_found_until_its_marker_is_there(
    written: Written,
) -> None:
    for producer in (PLAIN, 7, 8, 7):
        written.write(producer)
    written.write(8, Outcome.ABORT)
    written.upload()
    assert texts(written) == []
    written.world.clock.advance_ms(OPEN_MS_MAX)
    assert texts(written) == [], "its coordinator may be about to end it"
    written.world.clock.advance_ms(MINUTE_MS)
    (text,) = texts(written)
    assert text.startswith(
        "a transaction of producer 7 in t-0 is open from offset 1 on for 21 minutes or longer"
    )
    assert "find-hanging" in ADVICE[FindingKind.TRANSACTION_OPEN]
    written.write(7, Outcome.COMMIT)
    written.upload()
    assert texts(written) == []
