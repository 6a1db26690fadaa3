"""What an unknown setting may have meant."""

import pytest

from siltstone.offline.opening.tree import known_settings, unknown_key

KNOWN = {"wal.segment_bytes": 0, "wal.sync": 0, "upload.block_size_bytes": 0, "node_id": 0}


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("wal.segment_byte", "did you mean wal.segment_bytes?"),
        ("segment_bytes", "did you mean wal.segment_bytes?"),
        ("bytes.segment", "did you mean wal.segment_bytes?"),
        ("read.block_size_byte", "did you mean upload.block_size_bytes?"),
        ("wal.zzz", "known are wal.segment_bytes, wal.sync"),
        ("zzz", "known are wal.…, upload.…, node_id, buckets.…, listener.… and topics.…"),
        ("qqq.zzz", "known are wal.…, upload.…, node_id, buckets.…, listener.… and topics.…"),
    ],
)
def test_the_hint_is_the_nearest_name_or_what_there_is(key: str, hint: str) -> None:
    assert str(unknown_key(key, KNOWN, "a.toml")) == f"a.toml: {key} is not a setting; {hint}"


def test_a_name_without_a_section_is_not_one_of_all_without_a_section() -> None:
    assert known_settings("node", KNOWN).startswith("known are wal.…")


def test_the_whole_name_is_compared_before_its_last_part_is() -> None:
    known = dict.fromkeys(("read.size", "upload.size"))
    assert "did you mean read.size?" in str(unknown_key("reed.size", known, "flag"))
    assert "did you mean upload.size?" in str(unknown_key("uplode.size", known, "flag"))
