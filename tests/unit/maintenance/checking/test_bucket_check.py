import pytest

from siltstone.maintenance.checking.bucket_check import check_bucket
from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import CommitUpload
from siltstone.metadata.store.port import LogUnavailable
from siltstone.metadata.store_id import put_store_id
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import object_key
from siltstone.object_store.bucket_identity import MARKER_KEY, mark
from siltstone.object_store.health import PROBE_PREFIX
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.metadata_mark import key_of_mark, mark_of_state
from siltstone.object_store.port import ObjectSummary, StoreDenied, StoreTransient
from siltstone.runtime.randomness import seeded_randomness
from support.engine.batches import batch
from support.maintenance.maintained_store import MaintainedStore


def kinds(findings: list[Finding]) -> dict[str | None, FindingKind]:
    assert len({each.key for each in findings}) == len(findings)
    return {each.key: each.kind for each in findings}


def test_an_empty_bucket() -> None:
    assert check_bucket(MaintainedStore().context, 0) == []


def test_committed_objects_are_no_finding() -> None:
    world = MaintainedStore((0, 1))
    stream_id = world.new_stream()
    for bucket_id in (0, 1, 0):
        world.append(stream_id, bucket_id=bucket_id)
    assert [check_bucket(world.context, bucket_id) for bucket_id in (0, 1)] == [[], []]


def test_what_nobody_names_in_all_its_kinds() -> None:
    world = MaintainedStore((0, 1))
    stream_id = world.new_stream()
    elsewhere = world.append(stream_id, bucket_id=1)
    (forgotten,) = world.destroyed(1)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    (destroyed,) = world.destroyed(1)
    sweep(world.context)
    prepared, not_uploaded = (object_key(world.prepare()) for _ in range(2))
    beyond = object_key(world.image.next_object_id)
    for key in (object_key(forgotten), object_key(elsewhere), prepared, beyond, "some/file"):
        world.store.put(key, [b"12345"])
    findings = check_bucket(world.context, 0)
    assert kinds(findings) == {
        object_key(elsewhere): FindingKind.ORPHAN_OBJECT,
        object_key(forgotten): FindingKind.ORPHAN_OBJECT,
        object_key(destroyed): FindingKind.OBJECT_AWAITS_DELETION,
        prepared: FindingKind.OBJECT_PREPARED,
        beyond: FindingKind.FOREIGN_KEY,
        "some/file": FindingKind.FOREIGN_KEY,
    }
    assert not_uploaded not in kinds(findings)
    of = {each.key: each for each in findings}
    assert of["some/file"].text == "some/file (5 bytes) was not written by this store"
    assert (of["some/file"].object_id, of["some/file"].size_bytes) == (None, 5)
    assert (of[object_key(forgotten)].object_id, of[prepared].size_bytes) == (forgotten, 5)


def test_rule_11_marks_of_newer_metadata_and_of_another_history() -> None:
    world = MaintainedStore()
    world.new_stream()
    now = mark_of_state(world.image)
    for each in (now, now._replace(append_id="ab" * 16), now._replace(version=now.version + 1)):
        world.store.put(key_of_mark(each), [b""])
    findings = check_bucket(world.context, 0)
    assert {each.kind for each in findings} == {FindingKind.METADATA_OLDER}
    newer, other = sorted((each.text for each in findings), key=lambda text: "entry" in text)
    assert f"version {now.version + 1} of the metadata, this is version {now.version}" in newer
    assert f"entry {now.version} of the metadata log as append {'ab' * 16}" in other


def test_a_probe_that_a_node_left_behind_is_no_finding() -> None:
    world = MaintainedStore()
    world.store.put(f"{PROBE_PREFIX}node-0-1", [b"."])
    assert check_bucket(world.context, 0) == []


def test_uploads_in_parts_in_all_their_kinds() -> None:
    world = MaintainedStore()
    committed = world.append(world.new_stream())
    (destroyed,) = world.destroyed(1)
    sweep(world.context)
    world.lose(destroyed)
    prepared = world.prepare()
    beyond = object_key(world.image.next_object_id)
    for key in (object_key(committed), object_key(destroyed), object_key(prepared), beyond, "some/file"):
        world.store.start_multipart(key)
    findings = check_bucket(world.context, 0)
    assert kinds(findings) == {
        object_key(committed): FindingKind.ORPHAN_UPLOAD,
        object_key(destroyed): FindingKind.ORPHAN_UPLOAD,
        object_key(prepared): FindingKind.UPLOAD_UNDER_WAY,
        beyond: FindingKind.FOREIGN_KEY,
        "some/file": FindingKind.FOREIGN_KEY,
    }
    sweep(world.context)
    assert set(kinds(check_bucket(world.context, 0)).values()) == {
        FindingKind.UPLOAD_UNDER_WAY,
        FindingKind.FOREIGN_KEY,
    }, "an orphan is what the next sweep aborts"


# -- beside others at work --------------------------------------------------------------------------------


def after(world: MaintainedStore, call: str, happens) -> None:
    """Once, when that request has been answered."""

    def hear(name: str, key: str) -> None:
        if name == call:
            world.store.after = lambda name, key: None
            happens()

    world.store.after = hear


def test_what_is_prepared_and_uploaded_before_the_list_is_known_by_the_image() -> None:
    """By a client that this one has not heard of: the image is read after the list."""
    world = MaintainedStore()
    context = world.another_context()
    world.append(world.new_stream())
    world.put(world.prepare(), [batch(0)])
    assert [each.kind for each in check_bucket(context, 0)] == [FindingKind.OBJECT_PREPARED]


def test_an_object_swept_between_list_and_image_is_no_orphan() -> None:
    world = MaintainedStore()
    world.destroyed(2)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    context = world.another_context()
    after(world, "list", lambda: sweep(world.context))
    assert check_bucket(context, 0) == []
    assert world.keys() == set()


def test_an_upload_in_parts_completed_and_committed_between_list_and_image_is_no_orphan() -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    object_id = world.prepare()
    new = world.put(object_id, [batch(stream_id)])
    content = world.bytes_of(object_id)
    world.lose(object_id)
    upload = world.store.start_multipart(object_key(object_id))

    def finish() -> None:
        part = world.store.upload_part(upload, 1, 0, [content])
        world.store.complete_multipart(upload, [part])
        world.metadata.execute(CommitUpload(0, 1, new))

    after(world, "list_multipart", finish)
    assert check_bucket(world.another_context(), 0) == []
    assert world.committed_keys() == {object_key(object_id)}


def test_an_upload_aborted_by_a_sweep_between_list_and_image_is_no_orphan() -> None:
    world = MaintainedStore()
    world.prepare(time_limit_ms=1)
    world.store.start_multipart(object_key(0))
    world.clock.advance_ms(1)
    after(world, "list_multipart", lambda: sweep(world.context))
    assert check_bucket(world.another_context(), 0) == []


# -- trouble ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [StoreTransient("no route"), StoreDenied("no permission")])
@pytest.mark.parametrize("call", ["list", "list_multipart", "head"])
def test_a_bucket_that_fails_is_a_finding(call: str, trouble: Exception) -> None:
    world = MaintainedStore()
    world.store.put("some/file", [b""])

    def fail(name: str, key: str) -> None:
        if name == call:
            raise trouble

    world.store.before = fail
    (finding,) = check_bucket(world.context, 0)
    assert finding.kind is FindingKind.STORE_UNREACHABLE
    assert finding.text == f"bucket 0 cannot be listed: {trouble}"


def test_the_second_list_of_uploads_may_fail_too() -> None:
    world = MaintainedStore()
    committed = world.append(world.new_stream())
    world.store.start_multipart(object_key(committed))

    def fail(name: str, key: str) -> None:
        if world.store.counts["list_multipart"] == 2:
            raise StoreTransient("no route")

    world.store.before = fail
    assert [each.kind for each in check_bucket(world.context, 0)] == [FindingKind.STORE_UNREACHABLE]


def test_metadata_out_of_reach_is_no_buckets_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    world = MaintainedStore()

    def fail(*_: object) -> None:
        raise LogUnavailable("no connection")

    monkeypatch.setattr(world.log, "read_after", fail)
    with pytest.raises(LogUnavailable):
        check_bucket(world.context, 0)


def test_a_check_only_reads() -> None:
    world = MaintainedStore()
    world.append(world.new_stream())
    world.destroyed(1)
    world.store.start_multipart("some/file")
    version, keys, uploads = world.image.version, world.keys(), list(MemoryStore.list_multipart(world.store))
    check_bucket(world.context, 0)
    assert (world.image.version, world.keys()) == (version, keys)
    assert list(MemoryStore.list_multipart(world.store)) == uploads


@pytest.mark.parametrize("key", ["folder/", ".hidden", "a\nb"])
def test_a_key_that_this_store_would_not_write_hides_no_other_finding(key: str) -> None:
    """What another program, or a bucket's console, makes: it was listed, so it is there."""
    world = MaintainedStore()
    store = world.context.buckets.store(0)
    store.put(object_key(world.image.next_object_id), [b"12345"])
    listed = sorted([ObjectSummary(key, 5, 0), *store.list()])
    store.list = lambda *_: iter(listed)  # type: ignore[method-assign]
    findings = check_bucket(world.context, 0)
    assert [each.kind for each in findings] == [FindingKind.FOREIGN_KEY] * 2
    assert key in kinds(findings)


@pytest.mark.parametrize(
    ("marker", "texts"),
    [
        (None, []),
        ("own", []),
        ("f" * 32, [f"bucket 0 belongs to store {'f' * 32}, this is store "]),
        ("damaged", [f"bucket 0: {MARKER_KEY} in "]),
    ],
)
def test_the_marker_of_the_bucket_is_no_foreign_key_and_has_to_be_this_store_s(
    marker: str | None, texts: list[str]
) -> None:
    world = MaintainedStore()
    own = world.metadata.execute(put_store_id(seeded_randomness(1))).decode()
    if marker == "damaged":
        world.store.put(MARKER_KEY, [b"{}"])
    elif marker is not None:
        mark(world.store, own if marker == "own" else marker)
    findings = check_bucket(world.context, 0)
    assert [each.text[: len(text)] for each, text in zip(findings, texts, strict=True)] == texts
    assert all(each.kind is FindingKind.BUCKET_OF_ANOTHER_STORE for each in findings)


def test_an_upload_of_an_object_that_is_forgotten_is_an_orphan() -> None:
    world = MaintainedStore()
    (forgotten,) = world.destroyed(1)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert forgotten not in world.image.objects
    world.store.start_multipart(object_key(forgotten))
    (finding,) = check_bucket(world.context, 0)
    assert (finding.kind, finding.object_id) == (FindingKind.ORPHAN_UPLOAD, forgotten)
