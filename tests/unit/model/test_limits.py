from siltstone.model import limits, serving_limits
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


def test_units():
    assert (limits.KIB, limits.MIB, limits.GIB) == (2**10, 2**20, 2**30)
    assert (limits.SECOND_MS, limits.MINUTE_MS, limits.HOUR_MS) == (1_000, 60_000, 3_600_000)
    assert limits.DAY_MS == 86_400_000


def test_what_is_said_to_be_another_system_s_is_its_figure():
    """In bytes and ms, as the sources have them."""
    automq = {
        "SPLIT_SIZE_BYTES": 16_777_216,
        "BLOCK_SIZE_BYTES": 524_288,
        "MERGED_BLOCK_SIZE_BYTES": 1_048_576,
        "TAIL_CACHE_RECORD_OVERHEAD_BYTES": 1_024,
        "UPLOAD_TIME_LIMIT_MS": 3_600_000,
        "WAL_CAPACITY_BYTES": 2_147_483_648,
        "READ_AHEAD_PAUSE_MS": 60_000,
        "COMPACTION_MEMORY_BYTES": 524_288_000,
        "COMPACTION_TIME_LIMIT_MS": 86_400_000,
        "FORCE_SPLIT_AGE_MS": 7_200_000,
        "STREAM_OBJECT_SETTLED_MS": 3_600_000,
        "SSO_COMPACTION_INTERVAL_MS": 1_200_000,
        "GRACE_PERIOD_MS": 600_000,
    }
    kafka = {
        "KEY_COMPACTION_MAP_BYTES": 134_217_728,
        "RETENTION_INTERVAL_MS": 300_000,
        "PRODUCER_ID_EXPIRATION_MS": 86_400_000,
        "PRODUCER_BATCHES_KEPT": 5,
        "GROUP_INITIAL_REBALANCE_DELAY_MS": 3_000,
        "GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS": 300_000,
        "OFFSETS_RETENTION_MINUTES": 10_080,
        "OFFSETS_RETENTION_CHECK_INTERVAL_MS": 600_000,
    }
    bookkeeper = {
        "MINOR_GC_INTERVAL_MS": 3_600_000,
        "MAJOR_GC_INTERVAL_MS": 86_400_000,
        "MINOR_GC_THRESHOLD": 0.2,
        "MAJOR_GC_THRESHOLD": 0.8,
        "PRESSURE_WARN_SHARE": 0.90,
        "PRESSURE_FULL_SHARE": 0.95,
    }
    pulsar = {"BACKLOG_QUOTA_CHECK_INTERVAL_MS": 60_000, "MESSAGE_TTL_CHECK_INTERVAL_MS": 300_000}
    ours = vars(limits) | vars(serving_limits)
    theirs = automq | kafka | bookkeeper | pulsar
    assert {name: ours[name] for name in theirs} == theirs


def test_what_is_off_unless_asked_for():
    assert limits.GC_COPY_BYTES_PER_SECOND == limits.STORE_QUOTA_BYTES == 0


def test_a_closing_node_ends_before_kubernetes_kills_it():
    assert limits.COMMIT_AT_CLOSE_STALLED_MS_MAX + serving_limits.CLOSE_TIME_LIMIT_MS < 30_000


def test_the_waits_of_a_request_add_up_to_33_s_at_most():
    waits = [
        min(limits.STORE_BACKOFF_MS_MAX, limits.STORE_BACKOFF_MS_MIN * 2**attempt)
        for attempt in range(1, limits.STORE_ATTEMPTS_MAX)
    ]
    assert sum(waits) == 32_700
