"""The process dies between any two calls to the disk while log files are begun and retired (rule 13)."""

from pathlib import Path
from random import Random

import pytest

from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import LOG_FILE_HEADER_BYTES
from siltstone.stream_engine.wal.log_directory import LogDirectory
from support.engine.batches import batch
from support.engine.losing_disk import LosingDisk, PowerLost
from support.engine.wal_bytes import record_bytes
from support.engine.wal_disk import put_disk_in

NODE, FILES, STEPS_MAX = 3, 5, 200
RECORD_BYTES = len(record_bytes(batch(0), 0, 0))


def lived(folder: Path, written: list[int], trimmed: list[int]) -> None:
    """Five files of one record each; from the third on the oldest is retired. Notes what was acknowledged."""
    log = LogDirectory(folder, NODE)
    try:
        log.claim(LogIdentity("a" * 32, NODE, 1))
        log.clear()
        files = []
        for number in range(FILES):
            position = number * RECORD_BYTES
            files.append(log.new_file(1, position, LOG_FILE_HEADER_BYTES + RECORD_BYTES))
            files[-1].write([record_bytes(batch(1, number), position, position)])
            files[-1].sync()
            written.append(position)
            if len(files) > 2:
                trimmed.append(files[0].first_position)
                log.begin_with(files[1].first_position)
                log.retire(files.pop(0))
    finally:
        log.close()


@pytest.mark.parametrize("power", ["stays", "fails"])
def test_rule_13_a_crash_at_any_step_loses_no_record_and_refuses_no_start(tmp_path, monkeypatch, power):
    for step in range(1, STEPS_MAX):
        folder = tmp_path / f"{step}"
        disk = LosingDisk(Random(step))
        put_disk_in(monkeypatch, disk)
        left = [step]

        def count_down(left=left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise PowerLost

        disk.before_call = count_down
        written: list[int] = []
        trimmed: list[int] = []
        try:
            lived(folder, written, trimmed)
        except PowerLost:
            pass
        else:
            break
        disk.before_call = lambda: None
        if power == "fails":
            disk.lose_unsynced(folder)
        log = LogDirectory(folder, NODE)
        found = [record.position for records in log.recover() for record in records]
        log.close()
        assert set(found) >= set(written) - set(trimmed), f"step {step}"
        disk.forget()
    else:
        raise AssertionError("it never ended")
    assert step > 4 * FILES
