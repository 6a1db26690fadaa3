from siltstone.maintenance.stream_object_compaction.task_input import CopyResult
from support.values.left_out import numbers_left_out


def test_what_is_left_out() -> None:
    assert numbers_left_out(CopyResult) == {
        "bytes_read": 0,
        "bytes_written": 0,
        "bytes_copied": 0,
        "peak_memory_bytes": 0,
    }
