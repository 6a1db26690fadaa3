"""Whatever faults occur: after success the bytes are right, after a failure there is nothing or the right bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.model.errors import SiltstoneError
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore, StoreTransient
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.engine.faulty_store import BY_CHANCE, Fault, FaultyStore
from support.values.examples import examples

KEY = "a5/objects/1"
seeds = st.integers(0, 2**32)
rates = st.sampled_from([0.1, 0.3, 0.6, 0.9])
attempts = st.integers(1, 8)
faults = st.lists(st.sampled_from(BY_CHANCE), min_size=1, max_size=5)
contents = st.lists(st.binary(max_size=20), max_size=4)
COUNT = settings(max_examples=examples(300))


def faulty_world(
    seed: int, rate: float, kinds: list[Fault], attempts_max: int
) -> tuple[MemoryStore, FaultyStore, RetryingStore]:
    clock = ManualClock()
    memory = MemoryStore(clock)
    faulty = FaultyStore(memory, seeded_randomness(seed), fault_rate=rate, faults=kinds)
    retrying = RetryingStore(
        faulty, clock, seeded_randomness(seed + 1), RetrySettings(attempts_max=attempts_max)
    )
    return memory, faulty, retrying


def content(store: ObjectStore, key: str = KEY) -> bytes | None:
    try:
        return store.get_range(key, 0, store.head(key).size_bytes)
    except ObjectNotFound:
        return None


@COUNT
@given(seeds, rates, faults, attempts, contents)
def test_put(seed: int, rate: float, kinds: list[Fault], attempts_max: int, buffers: list[bytes]) -> None:
    memory, faulty, store = faulty_world(seed, rate, kinds, attempts_max)
    whole = b"".join(buffers)
    try:
        store.put(KEY, buffers)
    except StoreTransient as failure:
        assert content(memory) in ((None, whole) if failure.uncertain else (None,))
    else:
        assert content(memory) == whole
    faulty.calm()
    assert content(memory) in (None, whole)


@COUNT
@given(seeds, rates, faults, attempts, st.permutations([0, 1, 2]))
def test_of_those_who_put_if_absent_at_most_one_wins(seed, rate, kinds, attempts_max, order) -> None:
    memory, faulty, store = faulty_world(seed, rate, kinds, attempts_max)
    told: dict[bytes, str] = {}
    for number in order:
        mine = b"written by %d" % number
        try:
            store.put_if_absent(KEY, [mine[:5], mine[5:]])
        except ObjectAlreadyExists:
            told[mine] = "lost"
            assert content(memory) not in (None, mine)
        except StoreTransient as failure:
            told[mine] = "unknown" if failure.uncertain else "nothing"
        else:
            told[mine] = "won"
            assert content(memory) == mine
    faulty.calm()

    winner = content(memory)
    assert winner is None or told[winner] in ("won", "unknown")
    assert [each for each in told if told[each] == "won"] in ([], [winner])


@COUNT
@given(seeds, rates, faults, attempts, st.lists(contents, min_size=1, max_size=4))
def test_multipart(
    seed: int, rate: float, kinds: list[Fault], attempts_max: int, bodies: list[list[bytes]]
) -> None:
    memory, faulty, store = faulty_world(seed, rate, kinds, attempts_max)
    whole = b"".join(b"".join(buffers) for buffers in bodies)
    try:
        upload = store.start_multipart(KEY)
        parts, position = [], 0
        for number, buffers in enumerate(bodies, 1):
            parts.append(store.upload_part(upload, number, position, buffers))
            position += parts[-1].size_bytes
        store.complete_multipart(upload, parts)
    except StoreTransient:
        assert content(memory) in (None, whole)
    else:
        assert content(memory) == whole
    faulty.calm()
    assert content(memory) in (None, whole)


@COUNT
@given(seeds, rates, faults, attempts, st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_delete_and_list(
    seed: int, rate: float, kinds: list[Fault], attempts_max: int, there: set[int], gone: set[int]
) -> None:
    memory, _, store = faulty_world(seed, rate, kinds, attempts_max)
    for number in there:
        memory.put(f"k/{number:02d}", [b"1"])
    left = sorted(f"k/{number:02d}" for number in there - gone)

    listed: list[str] = []
    try:
        store.delete([f"k/{number:02d}" for number in sorted(gone)])
        assert [summary.key for summary in memory.list()] == left
        listed.extend(summary.key for summary in store.list())  # keeps what came before a failure
    except SiltstoneError:
        assert listed == left[: len(listed)]
        assert {summary.key for summary in memory.list()} >= set(left)
    else:
        assert listed == left
