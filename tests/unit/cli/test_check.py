import pytest

from siltstone.cli.check import NOTES_SHOWN_MAX
from siltstone.server.settings import StoreSettings
from support.cli import run
from support.small_store import STREAMS, object_files


def test_a_whole_store_is_clean(store: StoreSettings) -> None:
    outcome = run("check", "--store", store.folder)
    assert outcome.status == 0
    assert outcome.out.startswith(f"clean: {STREAMS} streams, {len(object_files(store.folder))} objects")
    assert outcome.err == ""


def test_json_says_the_same(store: StoreSettings) -> None:
    document = run("check", "--store", store.folder, "--json").json
    assert document["clean"] is True and document["findings"] == []
    assert document["objects_checked"] == len(object_files(store.folder))
    assert document["bytes_read"] > 0


def test_a_missing_object_is_found(store: StoreSettings) -> None:
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
    store: StoreSettings, flag: str, status: int
) -> None:
    file = object_files(store.folder)[0]
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    assert run("check", flag, "--store", store.folder).status == status


def test_many_notes_of_a_kind_are_one_row_and_json_lists_each(store: StoreSettings) -> None:
    replaced = len(object_files(store.folder))
    assert replaced > NOTES_SHOWN_MAX
    run("compact", "--runner", "in-process", "--store", store.folder)
    outcome = run("check", "--store", store.folder)
    assert outcome.status == 0
    (note,) = [line for line in outcome.out.splitlines() if line.startswith("note ")]
    assert f"object awaits deletion {replaced} times, " in " ".join(note.split())
    assert len(run("check", "--store", store.folder, "--json").json["findings"]) == replaced


def test_an_object_that_nobody_names_is_listed(store: StoreSettings) -> None:
    (store.folder / "bucket" / "stray").write_text("?")
    outcome = run("check", "--store", store.folder)
    assert "foreign key" in outcome.out and "stray" in outcome.out
