"""The records of erased keys, compared with a plain set of keys."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.offline.erased_keys import NOT_ERASED, ErasedKeys, hashes_of_keys
from siltstone.offline.erasures import StreamErasure
from siltstone.record_columns.kernels import columns, compiled, plain
from siltstone.record_columns.kernels.columns import read_only
from siltstone.record_columns.kernels.port import Kernels

FIRST, SECOND = bytes(range(16)), bytes(16)
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"a", b"ab", b"b" * 40]))


def records_of(keys: list[bytes | None]) -> Any:
    lengths = np.array([-1 if each is None else len(each) for each in keys], dtype=np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    found = np.zeros((max(columns.KEY_AT, columns.KEY_BYTES) + 1, len(keys)), dtype=np.int64)
    found[columns.KEY_AT], found[columns.KEY_BYTES] = starts, lengths

    class Records(SimpleNamespace):
        def __len__(self) -> int:
            return len(keys)

    return Records(
        data=read_only(b"".join(each or b"" for each in keys)),
        columns=found,
        offsets=np.arange(len(keys), dtype=np.int64),
        have_key=lengths >= 0,
    )


def erasure(keys: list[bytes], bound: int, hash_key: bytes) -> StreamErasure:
    return StreamErasure("e", hash_key, tuple(hashes_of_keys(keys, hash_key, plain)), bound)


@given(
    st.lists(KEYS, max_size=30),
    st.lists(
        st.tuples(
            st.lists(st.binary(max_size=3), min_size=1, max_size=5),
            st.integers(0, 30),
            st.sampled_from([FIRST, SECOND]),
        ),
        min_size=1,
        max_size=4,
    ),
)
@pytest.mark.parametrize("kernels", [plain, compiled], ids=["plain", "compiled"])
def test_exactly_the_records_of_the_keys_below_the_bound_are_found(
    kernels: Kernels, keys: list[bytes | None], asked: list[tuple[list[bytes], int, bytes]]
) -> None:
    found = ErasedKeys([erasure(*each) for each in asked]).found_in(records_of(keys), kernels)
    for offset, (key, number) in enumerate(zip(keys, found.tolist(), strict=True)):
        wanted = {at for at, (of, bound, _) in enumerate(asked) if key in of and offset < bound}
        assert (number != NOT_ERASED) == bool(wanted)
        assert number == NOT_ERASED or number in {at for at, (of, _, _) in enumerate(asked) if key in of}


def test_hashes_with_one_first_half_are_told_apart() -> None:
    first, second = b"\x01" * 8 + b"\x02" * 8, b"\x01" * 8 + b"\x03" * 8
    keys = ErasedKeys([StreamErasure("e", FIRST, (first, second), 10)])
    made = [b"\x01" * 8 + bytes([number]) * 8 for number in (2, 3, 4)]
    hashes = np.frombuffer(b"".join(made), dtype="<u8").reshape(-1, 2).astype(np.uint64)
    kernels: Any = SimpleNamespace(hash_keys=lambda *_: hashes)
    assert keys.found_in(records_of([b"x", b"y", b"z"]), kernels).tolist() == [0, 0, NOT_ERASED]


def test_an_empty_key_is_a_key() -> None:
    found = ErasedKeys([erasure([b""], 10, FIRST)]).found_in(records_of([b"", None, b"a"]), plain)
    assert found.tolist() == [0, NOT_ERASED, NOT_ERASED]
