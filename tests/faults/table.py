"""The table of faults: what is broken under a live broker or before its start, what mends it, and what has to happen.

What is not in it: a power failure (``tests/simulation`` loses what was not synced), and time that stands still or jumps
for the kernel itself: no tool that shifts it is at hand everywhere, so ``support.faults.shifted_serve`` shifts what the
program takes for the time of day.
"""

import msgspec

from siltstone.model.limits import DAY_MS, HOUR_MS, MINUTE_MS
from support.faults.row import Acks, Reads, Row, Wanted
from support.faults.s3_proxy import Answers
from support.faults.scene import ENDS_SOON, Place
from support.faults.steps import (
    answer,
    close_connections,
    connect_beyond_the_file_limit,
    delete,
    die_with_a_full_log,
    empty,
    fill,
    flip,
    flip_in_object,
    halve,
    in_log,
    in_object,
    kill_s3,
    let_answer,
    live_twice,
    lock_metadata,
    make_hang,
    make_read_only,
    make_writable,
    nothing,
    put_log_back,
    put_object_back,
    restore_newest_metadata,
    restore_older_metadata,
    restore_older_metadata_without_log,
    shift_clock,
    stand_still,
    start_s3,
    unlock_metadata,
)

IN_S3 = Place(in_s3=True)
PROXIED = Place(proxied=True)
SMALL_LOG = {"engine.wal.capacity_bytes": "1MiB"}
"""A log that is full within seconds."""


def on_disk(disk: str) -> Place:
    return Place(disks=(disk,), header_bytes=3_000, settings=SMALL_LOG)


DENIED = Wanted(reads=Reads.NEWEST, log=("bucket", "403|denied|ExpiredToken", "credentials|permission|allow"))
READ_ONLY = Wanted(log=("bucket", "read-only", "writ|permission|mount"), reads=Reads.ALL)
HELD_UP = Wanted(reads=Reads.NEWEST, log=("upload", "retried|again"))


def full(disk: str) -> Wanted:
    """A row for a full disk; ``disk`` as the metrics name it."""
    return Wanted(acks=Acks.UNTIL_THE_LOG_IS_FULL, log=("no space|is full|free space",), full_disk=disk)


LOG_IN_BUCKET = {"engine.wal.location": "bucket:0"}
LOG_PROXIED = Place(proxied=True, settings=LOG_IN_BUCKET)
LOG_WAITS = Wanted(
    acks=Acks.UNTIL_THE_LOG_IS_FULL, log=("appends wait", "bucket of the write-ahead log", "heck")
)
LOG_DENIED = Wanted(
    acks=Acks.UNTIL_THE_LOG_IS_FULL, log=("appends wait", "bucket of the write-ahead log", "permission")
)

OUTAGES = [
    ("metadata-disk-full", on_disk("metadata"), fill("metadata"), empty("metadata"), full("metadata"), 2.0),
    ("bucket-disk-full", on_disk("bucket"), fill("bucket"), empty("bucket"), full("bucket-0"), 2.0),
    (
        "bucket-read-only",
        Place(disks=("bucket",)),
        make_read_only("bucket"),
        make_writable("bucket"),
        READ_ONLY,
        2.0,
    ),
    ("bucket-denied", PROXIED, answer(Answers.DENIED), answer(Answers.PASSED), DENIED, 2.0),
    ("bucket-busy", PROXIED, answer(Answers.BUSY), answer(Answers.PASSED), HELD_UP, 2.0),
    (
        "bucket-silent",
        PROXIED,
        answer(Answers.NEVER),
        answer(Answers.PASSED),
        Wanted(reads=Reads.NEWEST),
        3.0,
    ),
    (
        "log-disk-hangs",
        Place(hangs="log"),
        make_hang,
        let_answer,
        Wanted(
            acks=Acks.UNTIL_THE_LOG_IS_FULL,
            log=("disk of the write-ahead log", "/log/node-0", "check the disk"),
        ),
        2.0,
    ),
    ("bucket-disk-hangs", Place(hangs="bucket"), make_hang, let_answer, Wanted(reads=Reads.NEWEST), 3.0),
    ("metadata-locked", Place(), lock_metadata, unlock_metadata, Wanted(reads=Reads.ALL), 4.0),
    (
        "bucket-log-hangs",
        Place(hangs="bucket", settings=LOG_IN_BUCKET),
        make_hang,
        let_answer,
        LOG_WAITS,
        2.0,
    ),
    ("bucket-log-denied", LOG_PROXIED, answer(Answers.DENIED), answer(Answers.PASSED), LOG_DENIED, 2.0),
    ("bucket-log-silent", LOG_PROXIED, answer(Answers.NEVER), answer(Answers.PASSED), LOG_WAITS, 2.0),
]
"""The faults that keep a broker from uploading and leave it the log, as (id, place, fault, heal, wanted, seconds)."""

OLDER = ("older", "restore the newest")
DAMAGED_LOG = Wanted(exit_statuses=(1, 2), log=("write-ahead log", "/log/node-0", "restore|lost_epoch|move"))
LOG_DISK_FULL = Wanted(
    acks=Acks.NO_MATTER, reads=Reads.ALL, log=("appends are refused", "log", "free some space")
)
"""Appends are refused until a block is committed, whose files of the log are used again, or there is space."""

DAMAGED_OBJECT = Wanted(log=(r"{key}|object {object_id}\b", "{topic}", "{partition}", "offset"))

FAILS_TODAY: dict[str, str] = {}
"""The rows that fail today, by what happens instead of what is wanted."""

FAILS_BY_CHANCE: frozenset[str] = frozenset()
"""Those of them that fail only when the lock falls between the preparing and the commit of an upload."""

ROWS = [
    Row(
        id="log-disk-full",
        play="met by a broker",
        place=Place(disks=("log",), holds_uploads=True, header_bytes=3_000),
        fault=fill("log"),
        heal=empty("log"),
        wanted=LOG_DISK_FULL,
    ),
    Row(
        id="told-to-end-log-disk-full",
        play="told to end",
        place=Place(disks=("log",), holds_uploads=True, header_bytes=3_000, settings=ENDS_SOON),
        fault=fill("log"),
        heal=empty("log"),
        wanted=LOG_DISK_FULL,
    ),
    *(
        Row(
            id=name, play="met by a broker", place=place, fault=fault, heal=heal, wanted=wanted,
            lasts_seconds=seconds,
        )
        for name, place, fault, heal, wanted, seconds in OUTAGES
    ),
    *(
        Row(
            id=f"told-to-end-{name}", play="told to end", fault=fault, heal=heal,
            place=msgspec.structs.replace(place, settings={**ENDS_SOON, **place.settings}),
            lasts_seconds=seconds, wanted=Wanted(acks=wanted.acks),
        )
        for name, place, fault, heal, wanted, seconds in OUTAGES
    ),
    Row(id="s3-restarted", play="met by a broker", place=IN_S3, fault=kill_s3, heal=start_s3, wanted=HELD_UP),
    Row(
        id="told-twice-metadata-locked", play="told twice", fault=lock_metadata, heal=unlock_metadata,
        place=Place(settings=dict.fromkeys(ENDS_SOON, "60s")),
    ),
    *(
        Row(
            id=f"{name}-beyond-the-time-limit", play="met by a broker", fault=fault, heal=heal,
            place=Place(proxied=proxied, settings={"engine.upload.time_limit_ms": "1500ms"}), lasts_seconds=5,
        )
        for name, proxied, fault, heal in (
            ("bucket-busy", True, answer(Answers.BUSY), answer(Answers.PASSED)),
            ("metadata-locked", False, lock_metadata, unlock_metadata),
        )
    ),
    Row(
        id="older-metadata",
        rule=11,
        play="refused",
        before=live_twice,
        fault=restore_older_metadata,
        heal=restore_newest_metadata,
        wanted=Wanted(exit_statuses=(2,), log=OLDER),
    ),
    Row(
        id="older-metadata-without-the-log",
        rule=11,
        play="refused",
        before=live_twice,
        fault=restore_older_metadata_without_log,
        heal=restore_newest_metadata,
        wanted=Wanted(exit_statuses=(1, 2), log=OLDER),
    ),
    *(
        Row(
            id=f"older-metadata-{name}",
            rule=11,
            play="refused",
            before=live_twice,
            fault=restore_older_metadata,
            heal=restore_newest_metadata,
            command=command,
            wanted=Wanted(exit_statuses=(1, 2), log=OLDER),
        )
        for name, command in (
            ("maintain-run", ("maintain", "run", "--force", "--runner", "in-process")),
            ("compact", ("compact", "--runner", "in-process")),
            ("sweep", ("maintain", "sweep")),
            ("repair", ("check", "--repair", "--yes")),
        )
    ),
    Row(
        id="clock-forward-and-back",
        play="met by a broker",
        place=Place(shifted=True, settings={"engine.upload.time_limit_ms": "7d"}),
        fault=shift_clock(2 * DAY_MS),
        heal=shift_clock(0),
    ),
    Row(
        id="clock-back-and-forward",
        play="met by a broker",
        place=Place(shifted=True),
        fault=shift_clock(-30 * MINUTE_MS),
        heal=shift_clock(0),
    ),
    Row(
        id="clock-forward-in-an-upload",
        play="met by a broker",
        place=Place(shifted=True, proxied=True),
        before=answer(Answers.NEVER),
        fault=shift_clock(2 * HOUR_MS),
        heal=answer(Answers.PASSED),
    ),
    Row(id="stopped-10-s", play="met by a broker", fault=stand_still, wanted=Wanted()),
    Row(
        id="too-many-connections",
        play="met by a broker",
        fault=connect_beyond_the_file_limit,
        heal=close_connections,
        wanted=Wanted(log=("files|descriptors", "limit|ulimit|too many")),
    ),
    Row(
        id="two-brokers-on-a-folder",
        play="refused beside",
        fault=nothing,
        wanted=Wanted(exit_statuses=(2,), log=("in use by another process",)),
    ),
    Row(
        id="same-node-with-another-log",
        play="refused beside",
        fault=nothing,
        settings={"wal_folder": "another-log"},
        wanted=Wanted(exit_statuses=(2,), log=("another process runs as node 0",)),
    ),
    *(
        Row(
            id=name,
            play="refused",
            place=Place(holds_uploads=True),
            before=die_with_a_full_log,
            fault=in_log(damage, at=at),
            heal=put_log_back,
            wanted=DAMAGED_LOG,
        )
        for name, damage, at in (
            ("log-file-flipped", flip, 1),
            ("log-file-truncated", halve, 2),
            ("last-log-file-truncated", halve, -1),
            ("log-file-deleted", delete, 2),
        )
    ),
    *(
        Row(
            id=name, play="damaged object", fault=fault, heal=put_object_back, wanted=DAMAGED_OBJECT,
        )
        for name, fault in (
            ("object-flipped", flip_in_object),
            ("object-truncated", in_object(halve)),
            ("object-deleted", in_object(delete)),
        )
    ),
]  # fmt: skip
