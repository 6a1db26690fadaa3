from siltstone.model import limits
from siltstone.object_formats.log_file import LOG_FILE_HEADER_BYTES, RECORD_OVERHEAD_BYTES


def test_the_largest_append_fits_a_wal_segment():
    assert limits.APPEND_BYTES_MAX + RECORD_OVERHEAD_BYTES + LOG_FILE_HEADER_BYTES <= limits.WAL_SEGMENT_BYTES


def test_joined_reads_hold_a_merged_block():
    assert limits.BLOCK_SIZE_BYTES <= limits.MERGED_BLOCK_SIZE_BYTES <= limits.READ_REQUEST_BYTES_MAX


def test_caches_hold_several_of_what_they_are_filled_with():
    assert limits.CACHE_BLOCK_BYTES_MAX * 2 <= limits.TAIL_CACHE_BYTES_MAX
    assert limits.READ_AHEAD_BYTES_MAX * 2 <= limits.BLOCK_CACHE_BYTES_MAX
    assert limits.WAL_SEGMENT_BYTES * 4 <= limits.WAL_CAPACITY_BYTES


def test_split_streams_can_be_copied_as_parts():
    """A stream object has to be a legal source of UploadPartCopy by itself."""
    assert limits.SPLIT_SIZE_BYTES >= limits.PART_SIZE_BYTES_MIN


def test_a_tail_read_finds_the_index_of_about_900_blocks():
    assert limits.TAIL_READ_BYTES // 72 == 910
