"""A log in files with tears and damage."""

import asyncio
import shutil

import pytest

from siltstone.object_formats.log_file import RECORD_OVERHEAD_BYTES, DamagedWal
from support.engine.wal_node import WalNode, recovered_offsets


def three_segments(folder):
    """Nine records of 1,000 bytes, each synced before the next: three segments of three."""

    async def main():
        node = await WalNode(folder).start()
        for offset in range(9):
            await node.append_durably(offset, 1000)
        await node.wal.close()

    asyncio.run(main())
    return sorted(folder.glob("*.wal"))


def overwrite(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


RECORD_1000 = RECORD_OVERHEAD_BYTES + 1000


def test_a_torn_last_record_ends_the_log(tmp_path):
    segments = three_segments(tmp_path)
    overwrite(segments[-1], 64 + 2 * RECORD_1000 + 500, b"torn")
    assert recovered_offsets(tmp_path) == list(range(8))


def test_a_damaged_record_that_later_ones_confirm_is_damage(tmp_path):
    segments = three_segments(tmp_path)
    overwrite(segments[-1], 64 + 500, b"rot")
    with pytest.raises(DamagedWal, match="acknowledged"):
        recovered_offsets(tmp_path)


@pytest.mark.parametrize("record", [0, 1, 2])
def test_damage_in_an_earlier_segment_is_damage(tmp_path, record):
    segments = three_segments(tmp_path)
    overwrite(segments[1], 64 + record * RECORD_1000 + 500, b"rot")
    with pytest.raises(DamagedWal, match="acknowledged"):
        recovered_offsets(tmp_path)


def test_a_missing_segment_in_the_middle_is_damage(tmp_path):
    segments = three_segments(tmp_path)
    segments[1].unlink()
    with pytest.raises(DamagedWal, match="missing"):
        recovered_offsets(tmp_path)


def test_a_damaged_segment_header_is_damage_and_names_the_file(tmp_path):
    segments = three_segments(tmp_path)
    overwrite(segments[1], 10, b"rot")
    with pytest.raises(DamagedWal, match=segments[1].name):
        recovered_offsets(tmp_path)


@pytest.mark.parametrize("size", [0, 64, 4096])
def test_a_segment_that_was_being_made_is_passed_over(tmp_path, size):
    three_segments(tmp_path)
    (tmp_path / f"{9 * RECORD_1000:020d}.wal").write_bytes(bytes(size))
    assert recovered_offsets(tmp_path) == list(range(9))


def test_a_spare_that_was_just_renamed_is_passed_over(tmp_path):
    """The crash came before its new header: it still says that it begins where it began before."""
    segments = three_segments(tmp_path)
    shutil.copy(segments[0], tmp_path / f"{9 * RECORD_1000:020d}.wal")
    assert recovered_offsets(tmp_path) == list(range(9))
