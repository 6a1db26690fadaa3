import os
import time
from pathlib import Path

import pytest

from siltstone.cli.check import NOTES_SHOWN_MAX
from siltstone.foundation.quantity_words import size_words
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import STREAMS, object_files
from support.processes.cli import run


def test_a_whole_store_is_clean(store: NodeSettings) -> None:
    outcome = run("check", "--store", store.folder)
    assert outcome.status == 0
    assert outcome.out.startswith(f"clean: {STREAMS} streams, {len(object_files(store.folder))} objects")
    assert outcome.err == ""


def test_json_says_the_same(store: NodeSettings) -> None:
    document = run("check", "--store", store.folder, "--json").json
    assert document["clean"] is True and document["findings"] == []
    assert document["objects_checked"] == len(object_files(store.folder))
    assert document["bytes_read"] > 0


def test_a_missing_object_is_found(store: NodeSettings) -> None:
    object_files(store.folder)[1].unlink()
    outcome = run("check", "--store", store.folder)
    assert outcome.status == 1
    assert "object missing" in outcome.out and "something is wrong" in outcome.out
    document = run("check", "--store", store.folder, "--json")
    assert document.status == 1
    (finding,) = document.json["findings"]
    assert (finding["severity"], finding["kind"], finding["object_id"]) == ("ERROR", "OBJECT_MISSING", 1)


@pytest.mark.parametrize(("flag", "status"), [("--full", 1), ("--indexes-only", 0)])
def test_a_flipped_bit_in_a_block_is_found_when_blocks_are_read(
    store: NodeSettings, flag: str, status: int
) -> None:
    file = object_files(store.folder)[0]
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    assert run("check", flag, "--store", store.folder).status == status


def test_many_notes_of_a_kind_are_one_row_and_json_lists_each(store: NodeSettings) -> None:
    replaced = len(object_files(store.folder))
    assert replaced > NOTES_SHOWN_MAX
    run("maintain", "run", "--kind", "sso-compaction", "--runner", "in-process", "--store", store.folder)
    outcome = run("check", "--store", store.folder)
    assert outcome.status == 0
    (note,) = [line for line in outcome.out.splitlines() if line.startswith("note ")]
    assert f"object awaits deletion {replaced} times, " in " ".join(note.split())
    assert len(run("check", "--store", store.folder, "--json").json["findings"]) == replaced


def test_an_object_that_nobody_names_is_listed(store: NodeSettings) -> None:
    (store.folder / "bucket" / "stray").write_text("?")
    outcome = run("check", "--store", store.folder)
    assert "foreign key" in outcome.out and "stray" in outcome.out


def orphan(store: NodeSettings, *, age_days: float) -> Path:
    """A copy under an id that was given out and is not known any more: compaction replaced it, a sweep deleted it."""
    first = object_files(store.folder)[0]
    content = first.read_bytes()
    run("maintain", "run", "--kind", "sso-compaction", "--runner", "in-process", "--store", store.folder)
    run("maintain", "sweep", "--grace-period", "0s", "--store", store.folder)
    assert not first.exists()
    first.parent.mkdir(parents=True, exist_ok=True)
    first.write_bytes(content)
    then = time.time() - age_days * 86_400
    os.utime(first, (then, then))
    return first


def test_an_old_orphan_is_deleted_when_asked_to(store: NodeSettings) -> None:
    file = orphan(store, age_days=2)
    shown = run("check", "--bucket", "--store", store.folder)
    assert shown.status == 1
    assert "can be repaired (--repair): 1 object to be deleted" in shown.out
    refused = run("check", "--repair", "--store", store.folder)
    assert refused.status == 2 and "add --yes to confirm" in refused.err
    assert file.exists()
    content, times = file.read_bytes(), (file.stat().st_atime, file.stat().st_mtime)
    told = run("check", "--repair", "--yes", "--store", store.folder)
    assert told.status == 0 and f"repaired: 1 of 1, {size_words(len(content))} deleted" in told.out
    assert not file.exists()
    file.write_bytes(content)
    os.utime(file, times)
    document = run("check", "--repair", "--yes", "--json", "--store", store.folder)
    assert document.status == 0
    (done,) = document.json["repaired"]
    assert (done["action"], done["done"]) == ("DELETE_OBJECT", True)
    assert not file.exists()
    again = run("check", "--bucket", "--repair", "--store", store.folder)
    assert (again.status, "repair" in again.out) == (0, False)


def test_gc11_a_young_orphan_is_kept(store: NodeSettings) -> None:
    file = orphan(store, age_days=0.5)
    outcome = run("check", "--repair", "--yes", "--store", store.folder)
    assert outcome.status == 1
    assert "not older than 24 hours" in outcome.out
    assert file.exists()
    file_of_longer = run(
        "check",
        "--repair",
        "--yes",
        "--json",
        "--set",
        "compaction.time_limit_ms=3d",
        "--store",
        store.folder,
    )
    assert "72 hours" in file_of_longer.json["repair_plan"]["left"][0]["advice"]


def test_what_cannot_be_repaired_is_said_with_what_to_do(store: NodeSettings) -> None:
    file = orphan(store, age_days=2)
    next(each for each in object_files(store.folder) if each != file).unlink()
    outcome = run("check", "--repair", "--yes", "--store", store.folder)
    assert outcome.status == 1
    assert "object missing, 1 time: restore it from a backup" in outcome.out
    assert "it may hold the records that are missing elsewhere" in outcome.out
    assert file.exists()
