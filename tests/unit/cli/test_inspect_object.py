from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from siltstone.cli.inspecting import source
from siltstone.cli.inspecting.tables import _metadata_facts, _span, index_table
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_store.opening import open_store
from siltstone.object_store.retrying import RetryingStore
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import (
    PAYLOAD_BYTES,
    RECORDS_PER_BATCH,
    STREAMS,
    TIMESTAMP_MS,
    object_files,
)
from support.processes.cli import assert_one_line, run


def test_an_object_by_its_id(store: NodeSettings) -> None:
    size = object_files(store.folder)[0].stat().st_size
    outcome = run("inspect", "0", "--store", store.folder)
    assert outcome.status == 0
    for part in (
        "kind SSO, a stream set object: blocks of many streams", "state committed", f"{size:,} bytes",
        "format version 1", f"{STREAMS} streams", "2013-01-01 00:26:40 …", "verified", object_key(0),
    ):  # fmt: skip
        assert part in outcome.words


def test_the_index_is_a_table_that_adds_up(store: NodeSettings) -> None:
    document = run("inspect", "0", "--store", store.folder, "--json").json
    entries = document["index"]
    lines = run("inspect", "0", "--store", store.folder).out.splitlines()
    header = next(at for at, line in enumerate(lines) if line.split()[:2] == ["stream", "start"])
    assert len(lines) - header - 2 == len(entries)
    assert {entry["stream_id"] for entry in entries} == set(range(STREAMS))
    assert sum(entry["size_bytes"] for entry in entries) == document["footer"]["index_position"]
    assert document["metadata"]["kind"] == "SSO"
    assert "blocks" not in document


@pytest.mark.parametrize("how", ["id", "key", "path", "file url", "bucket url"])
def test_all_names_of_an_object_lead_to_it(store: NodeSettings, how: str) -> None:
    file = object_files(store.folder)[1]
    name = {
        "id": "1",
        "key": object_key(1),
        "path": str(file),
        "file url": file.as_uri(),
        "bucket url": f"{store.buckets[0]}/{object_key(1)}",
    }[how]
    document = run("inspect", name, "--store", store.folder, "--json").json
    assert document["size_bytes"] == file.stat().st_size
    assert document["index"] == run("inspect", 1, "--store", store.folder, "--json").json["index"]


def test_a_file_needs_no_store(store: NodeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(object_files(store.folder)[0].read_bytes())
    monkeypatch.chdir(tmp_path)
    outcome = run("inspect", "copy", "--blocks")
    assert outcome.status == 0
    assert "checksum verified" in outcome.out
    assert not (tmp_path / "siltstone-data").exists()


def test_a_url_is_split_into_bucket_and_key(store: NodeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = open_store("memory:inspect")
    bucket.put("00000000000000000007", [object_files(store.folder)[0].read_bytes()])
    opened: list[str] = []

    def fake_open(url: str) -> RetryingStore:
        opened.append(url)
        return bucket

    monkeypatch.setattr(source, "open_store", fake_open)
    name = "s3://bucket/prefix/4f/objects/00000000000000000007?region=eu-central-1"
    assert run("inspect", name).status == 0
    assert opened == ["s3://bucket/prefix/4f/objects?region=eu-central-1"]
    assert_one_line(run("inspect", "s3://bucket/nothing"), 2, "nothing")


def test_blocks_lists_every_batch(store: NodeSettings) -> None:
    document = run("inspect", "0", "--store", store.folder, "--blocks", "--json").json
    batches = [batch for block in document["blocks"] for batch in block["batches"]]
    assert len(document["blocks"]) == len(document["index"])
    assert sum(batch["record_count"] for batch in batches) == sum(
        e["record_count"] for e in document["index"]
    )
    assert {batch["payload_bytes"] for batch in batches} == {PAYLOAD_BYTES}
    assert batches[0]["smallest_timestamp_ms"] == TIMESTAMP_MS
    assert all("payload" not in batch for batch in batches)
    table = run("inspect", "0", "--store", store.folder, "--blocks").out
    assert table.count("checksum verified") == len(document["blocks"])
    assert table.count(f" {RECORDS_PER_BATCH} ") >= len(batches)


def test_only_the_blocks_of_one_stream(store: NodeSettings) -> None:
    document = run("inspect", "0", "--store", store.folder, "--stream", "2", "--blocks", "--json").json
    assert {entry["stream_id"] for entry in document["index"]} == {2}
    assert {batch["stream_id"] for block in document["blocks"] for batch in block["batches"]} == {2}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("999", "has no object 999: it has"),
        ("²", "neither an object id, nor a key of this store, nor a file"),
        ("x/y", "neither an object id, nor a key of this store, nor a file"),
        ("ff/objects/00000000000000000001", "neither"),
        (object_key(5_000), "has no object 5000"),
        ("file:///nowhere/at/all", "there is no file /nowhere/at/all"),
        ("s3://bucket", "names a bucket, not an object"),
    ],
)
def test_t35_an_object_that_does_not_exist(store: NodeSettings, name: str, part: str) -> None:
    assert_one_line(run("inspect", name, "--store", store.folder), 2, part)


def damage(file: Path, how: str) -> None:
    raw = bytearray(file.read_bytes())
    match how:
        case "block":
            raw[100] ^= 1
        case "index":
            raw[-100] ^= 1
        case "footer":
            raw[-40] ^= 1
        case "truncated":
            del raw[-10:]
        case "empty":
            raw.clear()
    file.write_bytes(raw)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("block", "DamagedBlock"),
        ("index", "DamagedIndex"),
        ("footer", "DamagedFooter"),
        ("truncated", "DamagedFooter"),
        ("empty", "DamagedFooter"),
    ],
)
def test_a_damaged_file_is_named_with_exit_status_1(store: NodeSettings, how: str, error: str) -> None:
    file = object_files(store.folder)[0]
    damage(file, how)
    assert_one_line(run("inspect", file, "--blocks", "--json"), 1, str(file), "is damaged", error)


def test_a_damaged_object_of_the_store_is_named_too(store: NodeSettings) -> None:
    damage(object_files(store.folder)[0], "truncated")
    assert_one_line(run("inspect", "0", "--store", store.folder, "--json"), 1, "object")


def test_an_object_that_is_gone_is_said_to_be_missing(store: NodeSettings) -> None:
    object_files(store.folder)[0].unlink()
    outcome = run("inspect", "0", "--store", store.folder)
    assert_one_line(outcome, 1, object_key(0), "missing from its bucket")


def test_the_index_is_not_folded_at_80_columns() -> None:
    """The numbers are as large as in the demo."""
    entry = BlockEntry(
        stream_id=35, start_offset=10_461, end_offset=113_783, record_count=103_322, position=11_041_963,
        size_bytes=1_335_334, crc32c=0, smallest_timestamp_ms=1_357_000_000_000, largest_timestamp_ms=1_388_000_000_000,
    )  # fmt: skip
    console = Console(width=80, file=StringIO())
    console.print(index_table([entry]))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[2].split() == [
        "35", "10,461", "113,783", "103,322", "11,041,963", "1,335,334", "2013-01-01", "2013-12-25",
    ]  # fmt: skip


def spanned(*times_ms: tuple[int, int]) -> str | None:
    return _span([
        BlockEntry(
            stream_id=0, start_offset=0, end_offset=1, record_count=1, position=0, size_bytes=1, crc32c=0,
            smallest_timestamp_ms=first_ms, largest_timestamp_ms=last_ms,
        )
        for first_ms, last_ms in times_ms
    ])  # fmt: skip


def test_the_times_of_an_object_are_those_that_are_known() -> None:
    """A timestamp of -1 means that none of the records has one."""
    assert spanned() is None and spanned((-1, -1)) is None
    assert spanned((-1, -1), (0, 1_000)) == "1970-01-01 00:00:00 … 1970-01-01 00:00:01"
    assert spanned((2_000, 9_000), (1_000, 3_000)) == "1970-01-01 00:00:01 … 1970-01-01 00:00:09"


def test_of_an_object_only_what_has_happened_is_shown() -> None:
    prepared = ObjectMetadata(3, ObjectState.PREPARED, 2, None, 1, 0, 0, 0, 0, ())
    assert _metadata_facts(None) == {}
    assert _metadata_facts(prepared) == {
        "kind": None, "state": "prepared", "bucket": 2, "copies": None, "committed": None, "destroyed": None
    }  # fmt: skip
    done = msgspec.structs.replace(
        prepared, kind=ObjectKind.STREAM_OBJECT, committed_ms=1_000, destroyed_ms=2_000, copies=(0, 1)
    )
    facts = _metadata_facts(done)
    assert facts["kind"] == "SO, a stream object: of one stream"
    assert facts["copies"] == "0, 1"
    assert (facts["committed"], facts["destroyed"]) == ("1970-01-01 00:00:01", "1970-01-01 00:00:02")
