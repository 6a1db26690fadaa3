"""DuckDB as a query needs it: a connection that reaches nothing, tables that are loaded before, and one query.

``lock`` comes after the tables are loaded and before the text of a user is run: then DuckDB reads no file, loads no
extension, and none of its settings can be changed.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from siltstone.model.errors import InvalidRequest
from siltstone.record_columns.arrow import ArrowMissing

METADATA_SCHEMA = "siltstone"
MISSING = "SQL needs DuckDB; install it: pip install 'siltstone[sql]'"
_SETTINGS = {"autoload_known_extensions": "false", "autoinstall_known_extensions": "false"}
_CHANGES = frozenset({"ALTER", "DELETE", "DROP", "INSERT", "MERGE_INTO", "UPDATE"})
"""Statements that would change the temporary tables only, and would be taken for a change of the topics."""


class QueryRefused(InvalidRequest):
    """DuckDB cannot run the query."""


def require_duckdb() -> Any:
    """Returns the package. Raises ArrowMissing."""
    try:
        import duckdb  # noqa: PLC0415  an extra
    except ModuleNotFoundError as missing:
        raise ArrowMissing(MISSING) from missing
    return duckdb


def refuse_without_duckdb() -> None:
    """Raises ArrowMissing. The package is looked for, and not loaded: it takes 30 MiB."""
    if find_spec("duckdb") is None:
        raise ArrowMissing(MISSING)


def connected(settings: Mapping[str, str]) -> Any:
    """Returns a connection to a database in memory."""
    return require_duckdb().connect(":memory:", config={**_SETTINGS, **settings})


def load_table(connection: Any, schema: str, name: str, batches: Any) -> None:
    """Loads a pyarrow.RecordBatchReader into a temporary table, or into one of ``schema``."""
    quoted = name.replace('"', '""')
    if schema:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    place = f'TABLE {schema}."{quoted}"' if schema else f'TEMP TABLE "{quoted}"'
    connection.register("incoming", batches)
    connection.execute(f"CREATE {place} AS SELECT * FROM incoming")  # noqa: S608  quoted
    connection.unregister("incoming")


def lock(connection: Any) -> None:
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def refuse_statements(text: str) -> None:
    """Raises QueryRefused for no statement, and for one that changes something. A text that cannot be parsed passes:
    running it raises the error that names the place."""
    duckdb = require_duckdb()
    try:
        kinds = [each.type.name for each in duckdb.extract_statements(text)]
    except duckdb.Error:
        return
    if not kinds:
        raise QueryRefused("the query is empty: write one, such as 'select * from TOPIC limit 10'")
    for kind in kinds:
        if kind in _CHANGES:
            raise QueryRefused(f"{kind.split('_')[0]} is not allowed: a query reads topics and changes none")


def reason_of(failure: Exception) -> str:
    """Returns DuckDB's error in one line, without the text of the query."""
    return " ".join(str(failure).split("\n\n")[0].split())
