"""Replaces the operating system for the code that writes the files of a write-ahead log."""

import pytest

from siltstone.runtime import files as durable_files
from siltstone.stream_engine.wal import log_directory as segment_file


def put_disk_in(monkeypatch: pytest.MonkeyPatch, disk: object) -> None:
    """``disk`` has what it changes of ``os``, and passes the rest on."""
    monkeypatch.setattr(segment_file, "os", disk)
    monkeypatch.setattr(durable_files, "os", disk)
