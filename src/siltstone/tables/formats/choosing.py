"""Opens the format of a topic's table. The packages that a format needs are loaded here, when an export begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.foundation.credentials import WAREHOUSE
from siltstone.object_store.s3.location import S3Location
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.runtime.secret_sources import resolved
from siltstone.tables.failures import LocationRefused, TablesMissing
from siltstone.tables.formats.locations import unquoted
from siltstone.tables.formats.port import TableFormat

_SQLITE = "sqlite:///"
_CUT_OFF = frozenset("#?")
"""pyiceberg takes what follows one of these in a location for no part of the path."""


@contextmanager
def open_format(name: str, settings: TableSettings) -> Iterator[TableFormat]:
    """Opens ``parquet``, ``iceberg`` or ``delta`` at ``tables.location``. Raises TablesMissing, LocationRefused,
    SecretNotReadable, CatalogFailed, and what the store raises."""
    try:
        opened = {"parquet": _parquet, "iceberg": _iceberg, "delta": _delta}[name](settings)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package == "siltstone":
            raise
        raise TablesMissing(package, "delta" if name == "delta" else "tables") from missing
    try:
        yield opened
    finally:
        opened.close()


def _parquet(settings: TableSettings) -> TableFormat:
    from siltstone.tables.formats.parquet import ParquetFormat  # noqa: PLC0415  loads pyarrow

    return ParquetFormat(store_at(settings.location, create=True))


def _iceberg(settings: TableSettings) -> TableFormat:
    from siltstone.tables.formats.iceberg import IcebergFormat  # noqa: PLC0415  loads pyiceberg

    catalog = {
        name: value if name == WAREHOUSE else resolved(value, f"tables.catalog.{name}").revealed()
        for name, value in settings.catalog.items()
    }
    uri = catalog.get("uri", "")
    if uri.startswith(_SQLITE):
        Path(uri.removeprefix(_SQLITE)).parent.mkdir(parents=True, exist_ok=True)
    home = unquoted(home_of(settings.location))
    if not _CUT_OFF.isdisjoint(home):
        raise LocationRefused(home)
    return IcebergFormat({**_of_bucket(settings.location), **catalog}, home)


def _delta(settings: TableSettings) -> TableFormat:
    from siltstone.tables.formats.delta import DeltaFormat  # noqa: PLC0415  loads deltalake

    return DeltaFormat(
        home_of(settings.location),
        _of_bucket_for_delta(settings.location),
        store_at(settings.location, create=True),
    )


def home_of(location: str) -> str:
    """Returns ``tables.location`` as other programs write it, without the options of the URL."""
    return location.partition("?")[0].rstrip("/")


def _of_bucket(location: str) -> dict[str, str]:
    """Returns the properties with which pyiceberg reaches the bucket, from the options of the URL. pyiceberg finds
    credentials as boto3 does."""
    if not location.startswith("s3://"):
        return {}
    bucket = S3Location.parse(location)
    found = {"s3.endpoint": bucket.endpoint_url, "s3.region": bucket.region}
    return {name: value for name, value in found.items() if value is not None}


def _of_bucket_for_delta(location: str) -> dict[str, str]:
    """Returns the same for deltalake, which finds credentials in the environment or in the role of the machine."""
    if not location.startswith("s3://"):
        return {}
    bucket = S3Location.parse(location)
    found = {"aws_conditional_put": "etag"}
    if bucket.region is not None:
        found["aws_region"] = bucket.region
    if bucket.endpoint_url is not None:
        found["aws_endpoint"] = bucket.endpoint_url
        found["aws_allow_http"] = str(bucket.endpoint_url.startswith("http://")).lower()
    if bucket.addressing_style == "auto":
        found["aws_virtual_hosted_style_request"] = str(bucket.endpoint_url is None).lower()
    if bucket.anonymous:
        found["aws_skip_signature"] = "true"
    return found
