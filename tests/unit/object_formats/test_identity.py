import pytest
from msgspec.structs import replace

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.identity import (
    DamagedIdentity,
    LogIdentity,
    StoreIdentity,
    _LogLine,
    decode_log_identity,
    decode_store_identity,
    encode_log_identity,
    encode_store_identity,
)
from support.values.left_out import numbers_left_out

STORE_ID = "00112233445566778899aabbccddeeff"
LOG = LogIdentity(STORE_ID, 3, 7, 9, "ab" * 16, (0, 64))
STORE = StoreIdentity(STORE_ID)


def test_a_person_can_read_it() -> None:
    assert encode_log_identity(LOG).startswith(
        b'{"kind":"log","format":4,"store_id":"%s","node_id":3,"node_epoch":7,"metadata_version":9,"append_id":"%s",'
        b'"files":[0,64],"crc32c":"' % (STORE_ID.encode(), b"ab" * 16)
    )
    assert encode_log_identity(LOG).endswith(b'"}\n')


def sealed(body: bytes) -> bytes:
    return b'%s,"crc32c":"%08x"}\n' % (body[:-1], crc32c([body]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an identity"),
        (b"{}\n", "not an identity"),
        (encode_log_identity(LOG)[:-1], "not an identity"),
        (encode_log_identity(LOG) * 2, "not an identity"),
        (encode_log_identity(LOG).replace(b'"node_epoch":7', b'"node_epoch":8'), "checksum"),
        (encode_store_identity(STORE), "identity of a bucket"),
        (sealed(b'{"kind":"log","format":5,"store_id":"a","node_id":0,"node_epoch":1}'), "format 5"),
        (encode_log_identity(replace(LOG, files=(3,))), "names the files"),
        (encode_log_identity(replace(LOG, files=(3, 2))), "names the files"),
        (sealed(b'{"kind":"log","format":0,"store_id":"a","node_id":0,"node_epoch":1}'), "format 0"),
        (sealed(b'{"kind":"log","format":1,"store_id":"a","node_id":0}'), "cannot be decoded"),
        (sealed(b'{"kind":"tape","format":1}'), "cannot be decoded"),
        (sealed(b"{not json}"), "cannot be decoded"),
    ],
)
def test_rule_8_what_is_no_identity_of_a_log_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedIdentity, match=reason):
        decode_log_identity(data)


def test_rule_8_what_is_no_identity_of_a_bucket_is_named() -> None:
    with pytest.raises(DamagedIdentity, match="identity of a write-ahead log"):
        decode_store_identity(encode_log_identity(LOG))
    with pytest.raises(DamagedIdentity, match="not an identity"):
        decode_store_identity(b"")


def test_what_is_left_out() -> None:
    assert numbers_left_out(LogIdentity) == {"metadata_version": 0}
    assert numbers_left_out(_LogLine) == {"metadata_version": 0}
