"""Decides for each feature of Delta and Iceberg what an export does with a table that has it. Pure.

Other programs give a table features: rules that each writer has to keep, or without which a reader finds other rows. A
feature that is in use and is not in these lists stops the export before anything is written (rule 16). A Delta table
also names features that nothing in the table uses; where a rule holds only in use, ``is_used`` asks for that.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import msgspec

from siltstone.tables.formats.port import TableUse

READER_VERSIONS = range(1, 4)
WRITER_VERSIONS = range(2, 8)
"""The versions of Delta's protocol that are made of the features below [Delta protocol, valid feature names]."""

ICEBERG_VERSION = 2


class FeatureDecision(Enum):
    """What an export does with a table that uses the feature.

    KEPT            a commit of ours keeps the rule
    HARMLESS        no commit of ours can break it, and no row that we read or write depends on it
    STOPS_UPSERT    stops exports that replace rows
    STOPS_WRITING   stops all exports
    STOPS_READING   stops all exports and ``read_table``, because files do not have the rows of the table without it
    """

    KEPT = "kept"
    HARMLESS = "harmless"
    STOPS_UPSERT = "stops upsert"
    STOPS_WRITING = "stops writing"
    STOPS_READING = "stops reading"

    def stops(self, use: TableUse) -> bool:
        first = _FIRST_STOPPED.get(self)
        return first is not None and use.value >= first.value


_FIRST_STOPPED = {
    FeatureDecision.STOPS_UPSERT: TableUse.UPSERT,
    FeatureDecision.STOPS_WRITING: TableUse.APPEND,
    FeatureDecision.STOPS_READING: TableUse.READ,
}


class DeltaTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What a Delta table says of itself. ``readers`` and ``writers`` are the features that it lists for either;
    ``field_keys`` are the keys in the metadata of its columns, ``types`` their types, both also of nested columns."""

    reader_version: int = 1
    writer_version: int = 2
    readers: frozenset[str] = frozenset()
    writers: frozenset[str] = frozenset()
    configuration: Mapping[str, str] = {}
    field_keys: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class DeltaFeature(msgspec.Struct, frozen=True):
    """``why`` is the reason of the decision. Without ``is_used`` the feature counts when the table lists it."""

    name: str
    decision: FeatureDecision
    why: str
    is_used: Callable[[DeltaTraits], bool] | None = None

    def is_in(self, traits: DeltaTraits) -> bool:
        return self.name in traits.readers | traits.writers if self.is_used is None else self.is_used(traits)


def _is_set(name: str) -> Callable[[DeltaTraits], bool]:
    return lambda traits: traits.configuration.get(name, "").lower() == "true"


def _has_column_with(key: str) -> Callable[[DeltaTraits], bool]:
    return lambda traits: key in traits.field_keys


def _has_type(*names: str) -> Callable[[DeltaTraits], bool]:
    return lambda traits: not traits.types.isdisjoint(names)


def _has_constraint(traits: DeltaTraits) -> bool:
    return any(name.startswith("delta.constraints.") for name in traits.configuration)


def _maps_columns(traits: DeltaTraits) -> bool:
    return traits.configuration.get("delta.columnMapping.mode", "none").lower() != "none"


_KEPT, _HARMLESS = FeatureDecision.KEPT, FeatureDecision.HARMLESS
_WRITING, _READING = FeatureDecision.STOPS_WRITING, FeatureDecision.STOPS_READING

_NOT_CHECKED = "an export does not evaluate expressions"
_NOT_COMPUTED = "an export does not compute such values"
_OF_ANOTHER_FORMAT = "an export does not keep its rules for the layout of files"
_BY_CATALOG = "commits have to go through a catalog"

DELTA = (
    DeltaFeature(
        "appendOnly", FeatureDecision.STOPS_UPSERT, "no row may be replaced; files that are joined keep their rows",
        _is_set("delta.appendOnly"),
    ),
    DeltaFeature("invariants", _WRITING, _NOT_CHECKED, _has_column_with("delta.invariants")),
    DeltaFeature("checkConstraints", _WRITING, _NOT_CHECKED, _has_constraint),
    DeltaFeature(
        "changeDataFeed", _KEPT, "readers take the changes of a commit without files of changes from its data files",
        _is_set("delta.enableChangeDataFeed"),
    ),
    DeltaFeature("generatedColumns", _WRITING, _NOT_COMPUTED, _has_column_with("delta.generationExpression")),
    DeltaFeature("identityColumns", _WRITING, _NOT_COMPUTED, _has_column_with("delta.identity.start")),
    DeltaFeature("allowColumnDefaults", _WRITING, _NOT_COMPUTED, _has_column_with("CURRENT_DEFAULT")),
    DeltaFeature("columnMapping", _READING, "columns have other names in files", _maps_columns),
    DeltaFeature("deletionVectors", _KEPT, "a file is read with its vector, and never replaced by us"),
    DeltaFeature("timestampNtz", _HARMLESS, "columns of that type are another program's, and null in our rows"),
    DeltaFeature("domainMetadata", _HARMLESS, "the log keeps what a commit does not name"),
    DeltaFeature("rowTracking", _WRITING, "each file would need the ids of its rows"),
    DeltaFeature("v2Checkpoint", _WRITING, "an export looks for files in checkpoints of the older form"),
    DeltaFeature("checkpointProtection", _WRITING, "an export clears the log"),
    DeltaFeature(
        "inCommitTimestamp", _WRITING, "an export does not write the time into the commit",
        _is_set("delta.enableInCommitTimestamps"),
    ),
    DeltaFeature("clustering", _WRITING, "files would need the statistics of the columns of the clustering"),
    DeltaFeature("typeWidening", _READING, "older files have narrower types"),
    DeltaFeature("typeWidening-preview", _READING, "older files have narrower types"),
    DeltaFeature("variantType", _READING, "an export does not know the type variant", _has_type("variant")),
    DeltaFeature(
        "variantType-preview", _READING, "an export does not know the type variant", _has_type("variant")
    ),
    DeltaFeature("variantShredding-preview", _READING, "an export does not know the type variant"),
    DeltaFeature("materializePartitionColumns", _KEPT, "our data files have the columns of the division, too"),
    DeltaFeature("vacuumProtocolCheck", _KEPT, "features are looked at before files are deleted"),
    DeltaFeature("icebergCompatV1", _WRITING, _OF_ANOTHER_FORMAT),
    DeltaFeature("icebergCompatV2", _WRITING, _OF_ANOTHER_FORMAT),
    DeltaFeature("icebergCompatV3", _WRITING, _OF_ANOTHER_FORMAT),
    DeltaFeature("icebergWriterCompatV1", _WRITING, _OF_ANOTHER_FORMAT),
    DeltaFeature("icebergWriterCompatV3", _WRITING, _OF_ANOTHER_FORMAT),
    DeltaFeature("collations-preview", _WRITING, "bounds of texts would have to follow the collation"),
    DeltaFeature("coordinatedCommits-preview", _READING, _BY_CATALOG),
    DeltaFeature("catalogManaged", _READING, _BY_CATALOG),
    DeltaFeature("catalogOwned-preview", _READING, _BY_CATALOG),
    DeltaFeature("redirectReaderWriter-preview", _READING, "the rows are in another table"),
    DeltaFeature("redirectWriterOnly-preview", _WRITING, "rows belong into another table"),
)  # fmt: skip
_DELTA_NAMES = frozenset(each.name for each in DELTA)


def stopping_delta_features(traits: DeltaTraits, use: TableUse) -> list[str]:
    """Returns the features, each with a reason, that stop the use of a table."""
    found = [
        f"the feature {each.name} ({each.why})"
        for each in DELTA
        if each.decision.stops(use) and each.is_in(traits)
    ]
    return [*found, *_unknown_to_us(traits, use)]


def _unknown_to_us(traits: DeltaTraits, use: TableUse) -> Iterator[str]:
    is_writing = use is not TableUse.READ
    if traits.reader_version not in READER_VERSIONS:
        yield f"version {traits.reader_version} of Delta's protocol for readers"
    if is_writing and traits.writer_version not in WRITER_VERSIONS:
        yield f"version {traits.writer_version} of Delta's protocol for writers"
    for name in sorted((traits.readers | traits.writers if is_writing else traits.readers) - _DELTA_NAMES):
        yield f"the feature {name}, which this program does not know"


class IcebergTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What an Iceberg table says of itself."""

    version: int = 2
    properties: Mapping[str, str] = {}
    has_keys: bool = False
    default_columns: tuple[str, ...] = ()
    has_row_ids: bool = False
    sort_fields: int = 0
    statistics: int = 0
    refs: frozenset[str] = frozenset()


class IcebergFeature(msgspec.Struct, frozen=True):
    name: str
    decision: FeatureDecision
    why: str
    is_in: Callable[[IcebergTraits], bool]


ICEBERG = (
    IcebergFeature(
        "format version", _READING, f"an export knows version {ICEBERG_VERSION} alone",
        lambda traits: traits.version != ICEBERG_VERSION,
    ),
    IcebergFeature(
        "encryption", _READING, "an export has no keys",
        lambda traits: traits.has_keys or any(name.startswith("encryption.") for name in traits.properties),
    ),
    IcebergFeature(
        "default values", _READING, "rows of older files have the default and not null",
        lambda traits: bool(traits.default_columns),
    ),
    IcebergFeature(
        "row lineage", _WRITING, "each row would have to keep its id", lambda traits: traits.has_row_ids
    ),
    IcebergFeature(
        "sort order", _HARMLESS, "a file says in which order its rows are; ours say none",
        lambda traits: traits.sort_fields > 0,
    ),
    IcebergFeature(
        "statistics files", _HARMLESS, "they belong to older snapshots", lambda traits: traits.statistics > 0
    ),
    IcebergFeature(
        "branches and tags", _KEPT, "an export commits to main; snapshots with a name are not expired",
        lambda traits: bool(traits.refs - {"main"}),
    ),
)  # fmt: skip
"""Files of deletes are not here: they are looked for at each data file."""


def stopping_iceberg_features(traits: IcebergTraits, use: TableUse) -> list[str]:
    """Returns the features, each with a reason, that stop the use of a table."""
    return [
        f"{_named(each, traits)} ({each.why})"
        for each in ICEBERG
        if each.decision.stops(use) and each.is_in(traits)
    ]


def _named(feature: IcebergFeature, traits: IcebergTraits) -> str:
    return f"{feature.name} {traits.version}" if feature.name == "format version" else feature.name
