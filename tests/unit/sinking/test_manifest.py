"""The manifest of a batch: its parts in the order of tasks, and the very bytes that were staged."""

import msgspec
import pytest

from siltstone.metadata.sinks import batch_folder
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.sinking.failures import ManifestDamaged
from siltstone.sinking.manifest import (
    SinkManifest,
    delete_staged,
    get_manifest,
    manifest_of,
    put_manifest,
)
from siltstone.sinking.staging import REPORT_VERSION, StagedPart, TaskReport

FOLDER = batch_folder("out", 7)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock(), "sinking")


def part(stream_id: int, position: int, size_bytes: int, key: str = "", record_count: int = 1) -> StagedPart:
    return StagedPart("t", "00ff", stream_id - 10, stream_id, key, position, size_bytes, record_count)


def report(task_number: int, *parts: StagedPart, inline: bytes = b"") -> TaskReport:
    return TaskReport(REPORT_VERSION, task_number, "query", 1, parts, inline)


def test_parts_are_in_the_order_of_tasks_with_the_bytes_of_all_tasks_one_after_another(
    store: MemoryStore,
) -> None:
    store.put(f"{FOLDER}1-token-0", [b"....staged"])
    made = manifest_of(
        [
            report(2, part(10, 0, 3), part(11, 3, 2), inline=b"ccCdd"),
            report(0, part(10, 0, 2), inline=b"aa"),
            report(1, part(11, 4, 6, f"{FOLDER}1-token-0")),
        ]
    )
    found = [(each.stream_id, made.bytes_of(store, each)) for each in made.parts]
    assert found == [(10, b"aa"), (11, b"staged"), (10, b"ccC"), (11, b"dd")]
    assert [(stream_id, [each.size_bytes for each in parts]) for stream_id, parts in made.streams()] == [
        (10, [2, 3]),
        (11, [6, 2]),
    ]


def test_it_is_read_as_it_was_written_under_a_name_of_its_own(store: MemoryStore) -> None:
    manifest = manifest_of([report(0, part(10, 0, 2), inline=b"aa")])
    rng = seeded_randomness(1)
    (key, crc), (other, _) = (put_manifest(store, FOLDER, manifest, rng) for _ in range(2))
    assert key.startswith(f"{FOLDER}manifest-") and key != other
    assert get_manifest(store, key, crc) == manifest


def test_damage_of_a_manifest_has_a_name(store: MemoryStore) -> None:
    manifest = manifest_of([report(0, part(10, 0, 2), inline=b"aa")])
    key, crc = put_manifest(store, FOLDER, manifest, seeded_randomness(1))
    with pytest.raises(ManifestDamaged, match=f"has CRC {crc:08x}, and its record has {crc ^ 1:08x}"):
        get_manifest(store, key, crc ^ 1)
    with pytest.raises(ManifestDamaged, match="is gone from the bucket; restore it, or abandon the batch"):
        get_manifest(store, f"{key}x", crc)
    newer = SinkManifest(2, manifest.parts, b"")
    key, crc = put_manifest(store, FOLDER, newer, seeded_randomness(2))
    with pytest.raises(ManifestDamaged, match="has version 2; this program reads 1"):
        get_manifest(store, key, crc)


def test_a_part_whose_object_is_gone_or_too_short_is_damage(store: MemoryStore) -> None:
    store.put("staging/short", [b"12345"])
    manifest = SinkManifest(1, (part(10, 2, 4, "staging/short"), part(10, 0, 4, "staging/gone")), b"")
    with pytest.raises(ManifestDamaged, match=r"staging/short is shorter than its part: .* has 5 bytes"):
        manifest.bytes_of(store, manifest.parts[0])
    with pytest.raises(ManifestDamaged, match="staging/gone is gone"):
        manifest.bytes_of(store, manifest.parts[1])
    assert manifest.bytes_of(store, msgspec.structs.replace(manifest.parts[0], position=1)) == b"2345"


class _Unreachable(MemoryStore):
    def delete(self, keys: object) -> None:
        raise StoreTransient("no answer")


def test_only_what_was_staged_is_deleted_and_trouble_is_left_to_the_sweep(store: MemoryStore) -> None:
    for key in ("staging/out/7/a", "staging/out/7/b", "00/objects/1"):
        store.put(key, [b"x"])
    delete_staged(store, ["staging/out/7/a", "staging/out/7/a", "", "00/objects/1"])
    assert [each.key for each in store.list()] == ["00/objects/1", "staging/out/7/b"]
    delete_staged(_Unreachable(ManualClock()), ["staging/out/7/b"])
    delete_staged(_Unreachable(ManualClock()), [""])
