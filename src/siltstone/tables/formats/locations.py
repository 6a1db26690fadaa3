"""Compares the locations of files as programs write them into tables. Pure.

One place has many locations: Hadoop, and so Spark, writes ``file:/a`` for ``file:///a``, and ``s3a://bucket/a`` for
``s3://bucket/a``. Iceberg's programs quote no character of a path, while our stores, like other readers of URLs, take a
folder with a space as ``file:///a%20folder``.
"""

import re
from urllib.parse import quote, unquote

_FILE, _S3 = "file", "s3"
_NAMES_OF_S3 = ("s3a", "s3n")
_WHOLE = re.compile(r"/|([A-Za-z][A-Za-z0-9+.-]*):")


def path_in(folder: str, location: str) -> str:
    """Returns the path of a file below a folder; its URL as our stores take it, if the file is elsewhere. Neither the
    folder nor the location has quoted characters."""
    of_folder, (scheme, host, path) = _place(folder.rstrip("/")), _place(location)
    before = f"{of_folder[2]}/"
    if (scheme, host) == of_folder[:2] and path.startswith(before):
        return path.removeprefix(before)
    return f"{scheme}://{host}{quote(path) if scheme == _FILE else path}"


def _place(location: str) -> tuple[str, str, str]:
    """Returns scheme, host and path of a location."""
    whole = _WHOLE.match(location)
    named = whole[1] if whole else None
    path = location.removeprefix(f"{named}:") if named else location
    scheme, host = (named or _FILE).lower(), ""
    if path.startswith("//"):
        host, slash, path = path.removeprefix("//").partition("/")
        path = f"{slash}{path}"
    if (scheme, host) == (_FILE, "localhost"):
        host = ""
    return _S3 if scheme in _NAMES_OF_S3 else scheme, host, path


def is_elsewhere(path: str) -> bool:
    """Returns whether the path of a data file is a whole location, because the file is not in the folder of the
    table."""
    return _WHOLE.match(path) is not None


def store_and_key(url: str, location: str) -> tuple[str, str]:
    """Returns the URL of a store that has a file elsewhere, which is reached as ``tables.location`` is, and the key of
    the file."""
    folder, _, key = url.rpartition("/")
    options = location.partition("?")[2]
    return f"{folder}?{options}" if options else folder, unquote(key) if url.startswith(f"{_FILE}:") else key


def unquoted(url: str) -> str:
    """Returns the URL of a folder or a file as Hadoop and Iceberg write it."""
    return unquote(url) if url.startswith(f"{_FILE}:") else url
