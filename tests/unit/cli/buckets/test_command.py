"""``siltstone buckets`` on a store with one bucket and no node that runs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from siltstone.metadata.buckets import RegisterBuckets
from siltstone.metadata.store_id import put_store_id
from siltstone.object_store.bucket_identity import MARKER_KEY, mark
from siltstone.object_store.opening import open_store as open_bucket
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import Outcome, assert_one_line, run

Buckets = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes a store that a node has used once."""
    with open_store(load_node_settings(tmp_path / "store", environment={}), create=True) as store:
        store.metadata.execute(put_store_id(Random(1)))
        store.metadata.execute(RegisterBuckets(store.buckets.urls, 0))
    return tmp_path / "store"


@pytest.fixture
def buckets(folder: Path) -> Buckets:
    return lambda *words: run("buckets", *words, "--store", folder)


def test_the_list_names_the_bucket_and_where_new_objects_go(buckets: Buckets, folder: Path) -> None:
    assert f"writable 1 0 0 B 0 {(folder / 'bucket').as_uri()}" in buckets().words
    assert buckets("list").words.endswith("New objects are put into bucket 0.")


def test_a_bucket_is_tried_marked_and_writable(buckets: Buckets, tmp_path: Path) -> None:
    second = tmp_path / "disk two" / "bucket"
    done = buckets("add", second, "--weight", 3)
    assert done.status == 0 and f"1 writable 3 0 0 B 0 {second.as_uri()}" in done.words
    assert "failover: new objects are put into bucket 0; while it takes no writes, into 1." in done.words
    assert "Other processes find the bucket by themselves" in done.err
    assert [path.name for path in second.iterdir() if path.is_file()] == [MARKER_KEY], "no probe is left"


def test_adding_it_again_changes_its_weight(buckets: Buckets, tmp_path: Path) -> None:
    buckets("add", tmp_path / "second")
    done = buckets("add", (tmp_path / "second").as_uri(), "--weight", "5", "--json")
    assert [(each["id"], each["weight"]) for each in done.json["buckets"]] == [(0, 1), (1, 5)]


@pytest.mark.parametrize("written", ["{}/", "{}/../second", "file://{}", "file://{}/"])
def test_it_is_the_same_place_however_it_is_written(written: str, buckets: Buckets, tmp_path: Path) -> None:
    buckets("add", tmp_path / "second")
    buckets("drain", 1)
    done = buckets("add", written.format(tmp_path / "second"), "--json")
    assert [(each["id"], each["state"]) for each in done.json["buckets"]] == [
        (0, "writable"),
        (1, "writable"),
    ]


def test_one_that_was_removed_is_tried_again_as_any_new_place(buckets: Buckets, tmp_path: Path) -> None:
    """The place may belong to another store by now."""
    buckets("add", tmp_path / "second")
    buckets("drain", 1)
    assert buckets("remove", 1).status == 0
    mark(open_bucket((tmp_path / "second").as_uri()), "f" * 32)
    assert_one_line(buckets("add", tmp_path / "second"), 2, "belongs to store ffff")
    assert [each["id"] for each in buckets("list", "--json").json["buckets"]] == [0]


@pytest.mark.parametrize("is_of_another", [True, False])
def test_a_place_that_has_an_owner_is_refused_and_not_listed(
    is_of_another: bool, buckets: Buckets, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "taken"
    if is_of_another:
        mark(open_bucket(place.as_uri(), create=True), "f" * 32)
        words = "belongs to store ffff"
    else:
        place.symlink_to(folder / "bucket")  # the first bucket, by another name
        with open_store(load_node_settings(folder, environment={})) as store:
            mark(store.buckets.store(0), store.metadata.image.keys["store/id"].decode())
        words = "cannot be added: it is bucket 0 already"
    done = buckets("add", place)
    assert_one_line(done, 2, words)
    assert len(buckets("list", "--json").json["buckets"]) == 1


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("ftp://somewhere", "write file:///absolute/folder or s3://bucket/prefix"),
        ("/proc/version/bucket", "/proc/version/bucket"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_not_listed(place: str, words: str, buckets: Buckets) -> None:
    done = buckets("add", place)
    assert done.status and words in done.err and "Traceback" not in done.err
    assert len(buckets("list", "--json").json["buckets"]) == 1


def test_the_strategy_is_chosen_and_said(buckets: Buckets, tmp_path: Path) -> None:
    buckets("add", tmp_path / "second")
    for words, said in [
        (("round-robin",), "round-robin: new objects are spread over the buckets 0, 1, by bytes."),
        (("dynamic-sharding",), "spread over the buckets 0, 1, by bytes and weight."),
        (
            ("replication",),
            "2 copies, in the buckets 0 and 1. Uploads wait while fewer than 2 buckets take writes.",
        ),
        (("replication", "--copies-min", "1"), "While fewer than 2 buckets take writes, 1 copy will do."),
        (("failover", "--order", "1"), "into bucket 1; while it takes no writes, into 0."),
    ]:
        assert said in buckets("strategy", *words).words
    assert buckets("list", "--json").json["strategy"] == {
        "name": "failover",
        "order": [1],
        "copies": 1,
        "copies_min": 0,
    }


def test_what_the_strategy_does_is_wrapped_at_a_terminal(buckets: Buckets, folder: Path) -> None:
    buckets("add", folder.parent / "second")
    shown = run("buckets", "strategy", "replication", "--store", folder, COLUMNS="80").out
    assert "replication: each new object" in shown
    assert max(map(len, shown[shown.index("replication:") :].splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("failover", "--order", "7"), 1, "there is no bucket 7; the store has 0"),
        (("failover", "--order", "a,b"), 2, "'a,b' is not a list of bucket ids"),
        (("failover", "--order", "0,0"), 1, "names a bucket twice"),
        (("fastest",), 2, "'fastest' is not one of 'failover'"),
        (("replication",), 1, "2 copies of each object need as many writable buckets, and there are 1"),
        (("replication", "--copies", "1"), 2, "'--copies': 1 is not in the range"),
        (
            ("replication", "--copies", "2", "--copies-min", "3"),
            1,
            "2 copies with a minimum of 3 are impossible",
        ),
        (("failover", "--copies", "2"), 2, "leave out --copies"),
    ],
)
def test_a_strategy_that_cannot_be(words: tuple[str, ...], status: int, said: str, buckets: Buckets) -> None:
    assert_one_line(buckets("strategy", *words), status, said)


def test_a_store_from_before_the_list(tmp_path: Path) -> None:
    with open_store(load_node_settings(tmp_path / "old", environment={}), create=True):
        pass
    listed = run("buckets", "--store", tmp_path / "old")
    assert listed.status == 0 and "New objects are put into bucket 0." in listed.words
    refused = run("buckets", "add", tmp_path / "second", "--store", tmp_path / "old")
    assert_one_line(refused, 1, "start a node of this version once (siltstone serve)")


def test_a_bucket_is_drained_and_removed(buckets: Buckets, tmp_path: Path) -> None:
    second = tmp_path / "second"
    buckets("add", second)
    assert_one_line(buckets("remove", 1), 1, "drain it first (siltstone buckets drain 1)")
    done = buckets("drain", 1)
    assert "1 draining" in done.words and "0 objects to relocate" in done.err
    (second / "notes.txt").write_text("of somebody")
    removed = buckets("remove", 1)
    assert removed.status == 0 and second.as_uri() not in removed.words
    assert "1 key that the metadata does not name" in removed.err
    assert [path.name for path in second.iterdir() if path.is_file()] == ["notes.txt"]
    assert [each["id"] for each in buckets("add", second, "--json").json["buckets"]] == [0, 2]


def test_a_bucket_that_was_removed_may_stay_in_the_settings(
    buckets: Buckets, folder: Path, tmp_path: Path
) -> None:
    """Maintenance once took the place for a bucket that was emptied, and refused to run."""
    second = tmp_path / "second"
    buckets("add", second)
    buckets("drain", 1)
    assert buckets("remove", 1).status == 0
    with (folder / "siltstone.toml").open("a") as settings:
        settings.write(f'[buckets]\n1 = "{second.as_uri()}"\n')
    shutil.rmtree(second)
    for words in (("maintain", "run", "--runner", "in-process"), ("check",), ("buckets",)):
        done = run(*words, "--store", folder)
        assert done.status == 0 and second.as_uri() not in done.words, (done.words, done.err)
    assert not second.exists()


def test_a_folder_on_a_disk_that_is_not_mounted_is_named_and_not_made(
    buckets: Buckets, folder: Path, tmp_path: Path
) -> None:
    """Commands that look made an empty folder there, and took it for a bucket that was emptied."""
    second = tmp_path / "disk" / "second"
    second.parent.mkdir()
    buckets("add", second)
    second.parent.rename(tmp_path / "unmounted")
    for words, status in (
        (("check",), 3),
        (("maintain", "plan"), 0),
        (("maintain", "sweep"), 1),
        (("streams",), 0),
        (("buckets",), 0),
        (("buckets", "lost", 1), 0),
    ):
        done = run(*words, "--store", folder)
        assert done.status == status, (words, done.words, done.err)
        if status:
            assert f"there is no folder {second}: mount its disk" in done.words + done.err
    assert not second.parent.exists()
    (tmp_path / "unmounted").rename(second.parent)
    assert run("check", "--store", folder).status == 0


def test_the_first_bucket_may_be_missing_while_others_are_there(
    buckets: Buckets, folder: Path, tmp_path: Path
) -> None:
    """Its folder is that of the settings; without others, the settings are probably wrong."""
    (folder / "bucket").rename(tmp_path / "unmounted")
    assert_one_line(buckets(), 2, "bucket 0 of the store is missing: there is no folder")
    (tmp_path / "unmounted").rename(folder / "bucket")
    assert buckets("add", tmp_path / "second").status == 0
    (folder / "bucket").rename(tmp_path / "unmounted")
    assert buckets("add", tmp_path / "third").status == 0
    checked = run("check", "--store", folder)
    assert checked.status == 3 and f"there is no folder {folder / 'bucket'}" in checked.words
    assert not (folder / "bucket").exists()


def test_a_bucket_whose_folder_is_gone_is_removed_all_the_same(buckets: Buckets, tmp_path: Path) -> None:
    second = tmp_path / "second"
    buckets("add", second)
    buckets("drain", 1)
    shutil.rmtree(second)
    assert buckets("remove", 1).status == 0
    assert not second.exists()


def test_the_last_bucket_is_not_drained(buckets: Buckets) -> None:
    assert_one_line(buckets("drain", 0), 1, "add another one first")
    assert_one_line(buckets("drain", 5), 1, "there is no bucket 5; the store has 0")
    assert_one_line(buckets("remove", 5), 1, "there is no bucket 5; the store has 0")
