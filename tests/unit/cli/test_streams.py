from pathlib import Path

from siltstone.cli import streams
from siltstone.offline.opening.store import open_store
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import NodeSettings, load_node_settings
from support.engine.small_store import BATCHES, RECORDS_PER_BATCH, STREAMS, object_files
from support.processes.cli import run

RECORDS = BATCHES * RECORDS_PER_BATCH // STREAMS


def test_the_table_has_a_line_for_each_stream(store: NodeSettings) -> None:
    outcome = run("streams", "--store", store.folder)
    objects = len(object_files(store.folder))
    assert outcome.status == 0 and objects >= 3
    header, _, *lines = outcome.out.splitlines()
    assert header.split() == ["id", "state", "epoch", "owner", "start", "end", "objects", "bytes", "tags"]
    assert [line.split()[:7] for line in lines] == [
        [str(number), "closed", "0", "0", "0", str(RECORDS), str(objects)] for number in range(STREAMS)
    ]
    assert [line.split()[-1] for line in lines] == ["topic=t0", "topic=t1", "topic=t2"]


def test_the_table_fits_80_columns(store: NodeSettings) -> None:
    outcome = run("streams", "--store", store.folder, COLUMNS="80")
    assert all(len(line) <= 80 for line in outcome.out.splitlines())


def test_empty_streams_of_internal_topics_are_counted_at_a_terminal(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        for name in ("written", "empty"):
            broker.create_topic(name)
        for words in (
            ("produce", "written"),
            ("consume", "written", "-g", "readers", "--from-beginning", "-n", "1"),
        ):
            assert run(*words, "-b", broker.bootstrap_servers, stdin=b"1\n").status == 0
    drawn = run("streams", "--store", tmp_path).out
    in_pipe = run("streams", "--store", tmp_path, COLUMNS=None).out.splitlines()
    assert "written-0 data" in drawn and "empty-0 data" in drawn and len(in_pipe) == 1 + 2 * (2 + 50)
    assert drawn.count("__consumer_offsets-") == 2
    assert drawn.splitlines()[-1] == "and 98 empty streams of internal topics (--json has all)"


def test_json_is_one_document_with_the_same(store: NodeSettings) -> None:
    document = run("streams", "--store", store.folder, "--json").json
    assert document["version"] > 0
    first = document["streams"][0]
    assert first["tags"] == {"topic": "t0"}
    assert (first["stream_id"], first["state"], first["start_offset"], first["end_offset"]) == (
        0,
        "CLOSED",
        0,
        RECORDS,
    )
    bytes_in_files = sum(path.stat().st_size for path in object_files(store.folder))
    bytes_of_streams = sum(row["size_bytes"] for row in document["streams"])
    assert 0.9 * bytes_in_files < bytes_of_streams < bytes_in_files


def test_a_store_without_streams_says_so(tmp_path: Path) -> None:
    open_store(load_node_settings(tmp_path, environment={}), create=True).close()
    assert run("streams", "--store", tmp_path).out == "This store has no streams yet.\n"
    assert run("streams", "--store", tmp_path, "--json").json["streams"] == []


def test_parts_of_a_store_may_lie_elsewhere(store: NodeSettings, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (store.folder / "metadata.sqlite").rename(tmp_path / "m.sqlite")
    (store.folder / "bucket").rename(moved)
    places = ("--bucket", moved.as_uri(), "--metadata", f"sqlite://{tmp_path}/m.sqlite")
    assert len(run("streams", *places, "--json").json["streams"]) == STREAMS
    assert run("check", *places).status == 0


def test_the_streams_of_a_partition_are_named_after_it_and_others_by_their_tags() -> None:
    of_partition = {"topic": "flights", "partition": "3", "kind": "meta"}
    assert streams._tag_words(of_partition) == "flights-3 meta"
    assert streams._tag_words({**of_partition, "more": "x"}) == "kind=meta more=x partition=3 topic=flights"
    assert streams._tag_words({}) == ""
