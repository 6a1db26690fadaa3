"""Keeps the columns that a query has found, beside the query's own state, so that it finds the same ones when it is
started again.

The place is a folder or a bucket that the query names, such as the folder of its checkpoint. Each time columns are
added, one small object is put there, which never changes:

    siltstone-columns/<20 digits>.json      {"version":1,"columns":[["page","string"],["ms","long"]]}

The object with the highest number counts. A column keeps its type; structs may get fields.
"""

from pathlib import Path

import msgspec

from siltstone.model.errors import CorruptData
from siltstone.object_store.opening import open_store
from siltstone.object_store.port import ObjectAlreadyExists, ObjectStore
from siltstone.topic_configs.table_export import TableColumn

FOLDER = "siltstone-columns/"
FORM_VERSION = 1

Columns = tuple[TableColumn, ...]


class KeptColumnsDamaged(CorruptData):
    """The columns that a query has kept cannot be read. ``place`` is their object."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(
            f"the columns of the query, in {place}, cannot be read ({why}): restore the file, or delete it, and the"
            " columns are found again"
        )
        self.place = place


class _Form(msgspec.Struct):
    version: int
    columns: Columns


def encode_columns(columns: Columns) -> bytes:
    return msgspec.json.encode(_Form(FORM_VERSION, columns))


def decode_columns(data: bytes, place: str) -> Columns:
    """Raises KeptColumnsDamaged."""
    try:
        form = msgspec.json.decode(data, type=_Form)
        if form.version != FORM_VERSION:
            raise KeptColumnsDamaged(place, f"version {form.version}, and this program knows {FORM_VERSION}")
        for each in form.columns:
            _ = each.type
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as cause:
        raise KeptColumnsDamaged(place, str(cause)) from cause
    return form.columns


class ColumnsPlace:
    """The place of one query's columns: a folder or the URL of a bucket."""

    def __init__(self, location: str) -> None:
        """Raises InvalidStoreUrl, StoreDenied, StoreTransient."""
        url = location if "://" in location else Path(location).absolute().as_uri()
        self._store: ObjectStore = open_store(url, create=True)
        self._number = 0

    def newest(self) -> Columns:
        """Returns the columns that were kept last; none if there are none yet. Raises KeptColumnsDamaged, and what the
        store raises."""
        last = None
        for each in self._store.list(FOLDER):
            last = each
        if last is None:
            return ()
        place = f"{self._store.url}/{last.key}"
        digits = last.key.removeprefix(FOLDER).removesuffix(".json")
        if not (digits.isascii() and digits.isdigit()):
            raise KeptColumnsDamaged(place, "its name is no number")
        self._number = int(digits)
        return decode_columns(self._store.get_range(last.key, 0, last.size_bytes), place)

    def keep(self, columns: Columns) -> bool:
        """Keeps columns that ``newest`` did not return. Returns False if another process has kept others since: the
        caller begins again with ``newest``."""
        try:
            self._store.put_if_absent(f"{FOLDER}{self._number + 1:020}.json", (encode_columns(columns),))
        except ObjectAlreadyExists:
            return False
        self._number += 1
        return True
