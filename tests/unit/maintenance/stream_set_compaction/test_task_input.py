from siltstone.maintenance.stream_set_compaction.task_input import IterationResult
from support.values.left_out import numbers_left_out


def test_what_is_left_out() -> None:
    assert numbers_left_out(IterationResult) == {
        "bytes_read": 0,
        "read_requests": 0,
        "bytes_written": 0,
        "write_requests": 0,
        "peak_memory_bytes": 0,
    }
