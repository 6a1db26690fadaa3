"""What to do about each kind of finding, for people: what a repair does by itself, and what it cannot."""

from siltstone.maintenance.checking.findings import FindingKind

_BACKUP = "bring it back from a backup or a former version of the bucket, byte for byte under its key"
_GIVE_UP = "what cannot be brought back is given up by trimming the stream past it, or by deleting its topic"
_METADATA = (
    "the metadata contradicts itself: stop what writes, keep a copy of the metadata and the buckets, and restore the"
    " metadata from before it did; nothing is repaired by guessing"
)

ADVICE: dict[FindingKind, str] = {
    FindingKind.OFFSETS_NOT_COVERED: f"{_METADATA}; {_GIVE_UP}",
    FindingKind.RANGES_OVERLAP: _METADATA,
    FindingKind.RANGE_OF_NO_OBJECT: _METADATA,
    FindingKind.OBJECT_MISSING: f"{_BACKUP}; {_GIVE_UP}",
    FindingKind.OBJECT_DAMAGED: f"{_BACKUP}; its other blocks are whole and are read; {_GIVE_UP}",
    FindingKind.INDEX_CONTRADICTS_IMAGE: (
        "what lies under its key is not what was committed, be it whole: another store's, or an older one's."
        f" {_BACKUP.capitalize()}; until then all maintenance leaves it alone"
    ),
    FindingKind.STREAM_MISSING: _METADATA,
    FindingKind.STORE_UNREACHABLE: "see that the bucket answers and may be read, then check again",
    FindingKind.ORPHAN_OBJECT: "siltstone check --repair deletes it once it is old enough",
    FindingKind.FOREIGN_KEY: "it is never touched: whoever put it there has to say whether it may go",
    FindingKind.ORPHAN_UPLOAD: "siltstone check --repair aborts it, and so does the next sweep",
    FindingKind.OBJECT_PREPARED: "nothing: it is committed, or given up by a sweep after its time limit",
    FindingKind.OBJECT_AWAITS_DELETION: "nothing: a sweep deletes it after its grace period",
    FindingKind.UPLOAD_UNDER_WAY: "nothing: it is completed, or aborted by a sweep after its time limit",
    FindingKind.RANGE_NOT_LISTED: _METADATA,
    FindingKind.TOPIC_WITHOUT_STREAM: _METADATA,
    FindingKind.STREAM_OF_TWO_PARTITIONS: _METADATA,
    FindingKind.TOPIC_NAME_ASTRAY: _METADATA,
    FindingKind.BUCKET_OF_ANOTHER_STORE: "name the right bucket in the settings, or the right metadata",
    FindingKind.LISTING_DOUBTFUL: "check again; if it stays so, ask whoever runs the bucket",
}
