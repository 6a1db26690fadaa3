from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput, KeyCompactionResult
from support.values.left_out import numbers_left_out


def test_what_is_left_out() -> None:
    assert numbers_left_out(KeyCompactionInput).items() >= {"pass_ms_max": 0}.items()
    assert (
        numbers_left_out(KeyCompactionResult).items()
        >= {
            "ran_late": False,
            "mapped_offset": 0,
            "is_unchanged": False,
            "cleaned_offset": 0,
            "records_read": 0,
            "records_kept": 0,
            "keys_mapped": 0,
            "tombstones_kept": 0,
            "null_keys": 0,
            "batches_read": 0,
            "batches_kept": 0,
            "batches_copied": 0,
            "batches_emptied": 0,
            "batches_grown": 0,
            "bytes_read": 0,
            "bytes_written": 0,
            "peak_memory_bytes": 0,
            "map_was_full": False,
        }.items()
    )
