"""The errors with which an export stops or waits, one class for each cause. None of them loses or repeats a record."""

from collections.abc import Mapping, Sequence

from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable

AGAIN = "siltstone tables forget TOPIC begins a new table once the old one is dropped or renamed"


def in_one_line(cause: BaseException) -> str:
    """Returns the class of an exception and its text."""
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"


def is_certain(cause: BaseException | None) -> bool:
    """Returns whether the exception comes from values alone, so that it would be raised again. Those of networks,
    files, databases and their clients are not certain: they derive from other classes, or from OSError."""
    kinds = (
        ArithmeticError, AssertionError, AttributeError, LookupError, NameError, NotImplementedError, RecursionError,
        TypeError, ValueError,
    )  # fmt: skip
    return isinstance(cause, kinds) and not isinstance(cause, OSError)


class TablesMissing(InvalidRequest):
    """A package that tables need is not installed."""

    def __init__(self, package: str, extra: str = "tables") -> None:
        super().__init__(f"tables need {package}; install it: pip install 'siltstone[{extra}]'")


class LocationRefused(InvalidRequest):
    """Iceberg's programs cannot name a file in that folder."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"an Iceberg table cannot be in {location}, whose name has # or ?: name another folder in tables.location"
        )
        self.location = location


class TableNotThere(InvalidRequest):
    """The topic is not kept as a table, or no record of it was exported yet."""


class TableOfAnotherTopic(InvalidRequest):
    """A table of that name exists, and holds the records of another topic, or of a topic that was deleted."""

    def __init__(self, table: str, topic: str) -> None:
        super().__init__(
            f"table {table} holds the records of another topic, or of an earlier topic {topic} that was deleted and"
            " created again: rename or drop that table, or set siltstone.table.name to another name"
        )
        self.table, self.topic = table, topic


class TableNotOurs(InvalidRequest):
    """A table of that name exists, and was not made by an export."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table} exists and was not made by Siltstone: set siltstone.table.name to another name"
        )
        self.table = table


class LedgerLost(CorruptData):
    """The ledger is missing or damaged, so it is unknown which records are in the table."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"the ledger of table {table} is lost: {reason}. Nothing is exported until it is restored; {AGAIN}"
        )
        self.table = table


class TableRolledBack(CorruptData):
    """Rows that were exported are not in the table any more: it was rolled back, or restored from a copy."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"table {table} was rolled back or restored: {reason}. Nothing is exported, as records would be missing"
            f" from it: restore the newer table; {AGAIN}"
        )
        self.table = table


class TableAhead(CorruptData):
    """The table holds offsets that the topic does not have: the store was restored from an older copy."""

    def __init__(self, table: str, partition: str, exported: int, end: int) -> None:
        super().__init__(
            f"table {table} holds the offsets of {partition} up to {exported}, and the partition ends at {end}: the"
            f" store is an older copy; {AGAIN}"
        )
        self.table = table


class TableShapedOtherwise(InvalidRequest):
    """The configurations ask for another layout, or for columns of other types, than the table has."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"table {table} does not fit the topic's configurations: {reason}; set them back, or name another table in"
            " siltstone.table.name"
        )
        self.table = table


class ReplayRefused(InvalidRequest):
    """Dead letters of a table cannot be tried again now. Nothing was changed."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"dead letters of table {table} cannot be tried again: {reason}")
        self.table = table


class TableHasUnknownFeatures(InvalidRequest):
    """Another program has given the table features that an export does not know how to keep, so it must not write."""

    def __init__(self, table: str, features: Sequence[str], verb: str) -> None:
        super().__init__(
            f"table {table} cannot be {verb}, as another program has given it {'; '.join(features)}: take that back, or"
            " name another table in siltstone.table.name"
        )
        self.table, self.features = table, tuple(features)


class TableFileRefused(InvalidRequest):
    """A data file cannot be read or replaced together with the deletes of other programs that apply to it."""

    def __init__(self, table: str, path: str, verb: str, reason: str) -> None:
        super().__init__(f"data file {path} of table {table} cannot be {verb}: {reason}")
        self.table, self.path, self.reason = table, path, reason


class RegistryNotNamed(InvalidRequest):
    """The values need schemas, and the settings name no registry."""

    def __init__(self, topic: str, value: str) -> None:
        super().__init__(
            f"siltstone.table.value of topic {topic} is {value}, and the settings name no schemas: set tables.registry"
            " to http://HOST:PORT or to a folder, file:///FOLDER"
        )
        self.topic = topic


class TooManySchemas(InvalidRequest):
    """The values of a round name more schemas than a round may have."""

    def __init__(self, topic: str, count_max: int, bytes_max: int) -> None:
        super().__init__(
            f"the values of topic {topic} name more than {count_max} schemas, or more than {bytes_max} bytes of them:"
            " they are not what siltstone.table.value and siltstone.table.value.schema say"
        )
        self.topic = topic


class RecordsNotDecodable(InvalidRequest):
    """Records cannot be decoded, and the export stops until the topic's configurations are corrected."""

    def __init__(self, table: str, bad: int, records: int, example: str, *, may_be_few: bool) -> None:
        why = (
            "siltstone.table.errors is pause"
            if may_be_few
            else "that is a wrong configuration rather than bad records"
        )
        super().__init__(
            f"{bad} of {records} records for table {table} cannot be decoded, and {why}; nothing was written. The"
            f" first: {example}. Set siltstone.table.value, .key or .columns, or siltstone.table.errors"
        )
        self.table, self.bad, self.records = table, bad, records


class RecordsRemoved(CorruptData):
    """Offsets were removed before they were exported, although ``siltstone.table.retention`` holds them."""

    def __init__(self, table: str, partition: int, start: int, end: int) -> None:
        super().__init__(
            f"the offsets {start} to {end} of partition {partition} were removed before they were in table {table},"
            " although siltstone.table.retention is true (DeleteRecords removes them all the same): set it to false for"
            " one export, which notes the gap and continues"
        )
        self.table, self.partition = table, partition


class VerdictLost(CorruptData):
    """A round was interrupted, and its repetition cannot decode a record that the first attempt could. The record is
    not among the dead letters that were committed, so it would be in neither table."""

    def __init__(self, table: str, partition: int, offset: int) -> None:
        super().__init__(
            f"partition {partition} offset {offset} for table {table} cannot be decoded, although it could be when the"
            " round began: set siltstone.table.value, .key and .columns to what they were then"
        )
        self.table, self.partition, self.offset = table, partition, offset


class CommitOvertaken(Stale):
    """The table has changed since it was loaded; nothing was committed."""


class TableCommitUnknown(Unavailable):
    """The catalog or the store has not said whether the commit took place."""


class CommitFailed(InvalidRequest):
    """The commit was not made, and would fail again: a fault of the program, or of a package that it uses, at these
    offsets. ``offsets`` has the first and the end by partition."""

    def __init__(self, table: str, offsets: Mapping[int, tuple[int, int]], cause: BaseException) -> None:
        places = ", ".join(
            f"{number} offsets {first} to {end - 1}" for number, (first, end) in offsets.items()
        )
        super().__init__(
            f"nothing was committed to table {table}, and another try would fail as well, of partition"
            f" {places or 'none'}: {in_one_line(cause)}. The records stay in the topic: please report this text"
        )
        self.table, self.offsets = table, dict(offsets)


class ExportBroken(InvalidRequest):
    """A fault of the program, or of a package that it uses, has stopped the round of one topic."""

    def __init__(self, topic: str, table: str, cause: BaseException) -> None:
        super().__init__(
            f"the export of topic {topic} to table {table} stopped at a fault of the program: {in_one_line(cause)}."
            " Nothing is lost: please report this text"
        )
        self.topic, self.table = topic, table


class CatalogFailed(Unavailable):
    """The catalog cannot be reached, or refuses."""
