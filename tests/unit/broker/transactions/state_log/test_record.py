"""Records of ``__transaction_state``: golden bytes, round trips, and bytes that are not what was written.

The golden bytes were worked out from the layout by hand; test_java_transaction_records compares with Kafka's own
classes.
"""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.transactions.state_log.record import (
    DamagedTransactionRecord,
    EncodedRecord,
    LoggedTransaction,
    TransactionRecord,
    TransactionState,
    decode_record,
    encode_record,
)
from siltstone.kafka_protocol.malformed import UnencodableMessage
from support.values.examples import examples

KEY = "0000 0003 706179"
EMPTY = LoggedTransaction(
    7, 0, 60_000, TransactionState.EMPTY, frozenset(), 1_700_000_000_000, previous_producer_id=7
)
EMPTY_VALUE = (
    "0001 0000000000000007 0000 0000ea60 00 00 0000018bcfe56800 ffffffffffffffff"
    "01 00 08 0000000000000007"
)  # fmt: skip
PREPARED = LoggedTransaction(
    7, 32_767, 60_000, TransactionState.PREPARE_COMMIT, frozenset({("b", 1), ("a", 3), ("a", 0)}),
    1_700_000_000_000, 258, 7, 9, 2,
)  # fmt: skip
PREPARED_VALUE = (
    "0001 0000000000000007 7fff 0000ea60 02"
    "03 02 61 03 00000000 00000003 00 02 62 02 00000001 00"
    "0000018bcfe56800 0000000000000102"
    "03 00 08 0000000000000007 01 08 0000000000000009 02 02 0002"
)
COMPLETE = LoggedTransaction(9, 1, 60_000, TransactionState.COMPLETE_ABORT, frozenset(), 3, 2)
COMPLETE_VALUE = "0001 0000000000000009 0001 0000ea60 05 01 0000000000000003 0000000000000002 00"
GOLDEN = {
    "empty": (EMPTY, EMPTY_VALUE),
    "prepared": (PREPARED, PREPARED_VALUE),
    "complete": (COMPLETE, COMPLETE_VALUE),
    "tombstone": (None, None),
}


def as_bytes(value: str | None) -> EncodedRecord:
    return bytes.fromhex(KEY), None if value is None else bytes.fromhex(value)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    logged, value = GOLDEN[name]
    record = TransactionRecord("pay", logged)
    assert encode_record(record) == as_bytes(value)
    assert decode_record(as_bytes(value)) == record


def test_an_empty_transaction_has_45_bytes_as_kafka_s() -> None:
    _, value = encode_record(TransactionRecord("pay", EMPTY))
    assert value is not None and len(value) == 45


def test_the_states_have_kafka_s_numbers_and_names() -> None:
    """Its tools read them."""
    assert {state.title: int(state) for state in TransactionState} == {
        "Empty": 0, "Ongoing": 1, "PrepareCommit": 2, "PrepareAbort": 3, "CompleteCommit": 4, "CompleteAbort": 5,
        "Dead": 6,
    }  # fmt: skip


def test_version_0_is_read() -> None:
    """It has legacy lengths and no tagged fields."""
    value = (
        "0000 0000000000000007 0003 0000ea60 01"
        "00000001 0001 61 00000002 00000000 00000003"
        "0000000000000005 0000000000000002"
    )
    logged = LoggedTransaction(
        7, 3, 60_000, TransactionState.ONGOING, frozenset({("a", 0), ("a", 3)}), 5, 2
    )  # fmt: skip
    assert decode_record(as_bytes(value)) == TransactionRecord("pay", logged)


def test_unknown_tags_are_skipped() -> None:
    """Tag 3 is the next epoch of later versions of Kafka."""
    value = COMPLETE_VALUE.removesuffix("00") + "01 03 02 0007"
    assert decode_record(as_bytes(value)) == TransactionRecord("pay", COMPLETE)


INT64 = st.integers(-(2**63), 2**63 - 1)
transactions = st.builds(
    LoggedTransaction,
    INT64,
    st.integers(-1, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.sampled_from(sorted(set(TransactionState) - {TransactionState.EMPTY, TransactionState.DEAD})),
    st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)), max_size=6),
    INT64,
    INT64,
    INT64,
    INT64,
    st.integers(0, 2),
)
records = st.builds(TransactionRecord, st.text(max_size=20), st.none() | transactions)


@settings(max_examples=examples(100))
@given(records)
def test_what_is_written_is_read(record: TransactionRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_truncated() -> None:
    key, value = as_bytes(PREPARED_VALUE)
    assert value is not None
    for length in range(len(value)):
        with pytest.raises(DamagedTransactionRecord):
            decode_record((key, value[:length]))
    for length in range(len(key)):
        with pytest.raises(DamagedTransactionRecord):
            decode_record((key[:length], value))


@settings(max_examples=examples(200))
@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_are_read_or_named(key: bytes, value: bytes) -> None:
    for encoded in ((key, value), (bytes.fromhex(KEY), value), (bytes.fromhex(KEY), b"\0\1" + value)):
        with suppress(DamagedTransactionRecord):
            decode_record(encoded)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("0001 0003 706179", EMPTY_VALUE, "a key has version 1"),
        (KEY, "0002" + EMPTY_VALUE[4:], "a value has version 2"),
        (KEY, "ffff" + EMPTY_VALUE[4:], "a value has version -1"),
        (KEY, COMPLETE_VALUE.replace("0000ea60 05", "0000ea60 06"), "state 6"),
        (KEY, COMPLETE_VALUE.replace("0000ea60 05", "0000ea60 ff"), "state -1"),
    ],
)
def test_what_this_program_does_not_know_is_named(key: str, value: str, text: str) -> None:
    with pytest.raises(DamagedTransactionRecord, match=text):
        decode_record((bytes.fromhex(key), bytes.fromhex(value)))


def test_an_id_too_long_for_kafka_s_strings_is_refused() -> None:
    with pytest.raises(UnencodableMessage):
        encode_record(TransactionRecord("x" * 32_768, None))
