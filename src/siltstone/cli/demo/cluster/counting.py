"""The demo counts the records: which are missing, which are there twice, and whether each partition has them in
order."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from siltstone.cli.demo.kafka_client import Consumed


class RecordCount(msgspec.Struct, frozen=True):
    """``lost``: numbers that were acknowledged and not read; ``doubled``: numbers that were read at two offsets;
    ``misplaced``: numbers that were read elsewhere than they were acknowledged, or behind a higher one."""

    acknowledged: int
    read: int
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    misplaced: tuple[int, ...]

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.doubled or self.misplaced)


def count_records(answered: Mapping[int, tuple[int, int]], consumed: Iterable[Consumed]) -> RecordCount:
    """``answered``: number → (partition, offset) as the broker acknowledged it. Pure."""
    read = sorted((each.partition, each.offset, number_of(each)) for each in consumed)
    times = Counter(number for _, _, number in read)
    misplaced: list[int] = []
    newest: dict[int, int] = {}
    for partition, offset, number in read:
        is_elsewhere = times[number] == 1 and answered.get(number, (partition, offset)) != (partition, offset)
        if is_elsewhere or number < newest.get(partition, -1):
            misplaced.append(number)
        newest[partition] = max(number, newest.get(partition, -1))
    return RecordCount(
        acknowledged=len(answered),
        read=len(read),
        lost=tuple(sorted(answered.keys() - times.keys())),
        doubled=tuple(sorted(number for number, count in times.items() if count > 1)),
        misplaced=tuple(sorted(set(misplaced))),
    )


def number_of(record: Consumed) -> int:
    return int(record.value.partition(b" ")[0])
