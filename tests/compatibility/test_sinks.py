"""Golden bytes of what sinks keep between two versions of this program: their record, and the manifest of an intent."""

import msgspec

from siltstone.metadata.sinks import SinkBatch, SinkState, SinkTarget, decode_sink, encode_sink
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.staging import StagedPart

RECORD_V1 = (
    "9c01a572656c6179a435623066cf000001000000000001a430306666cf0000000200000000b873746167696e672f6f75742f"
    "372f6d616e69666573742d30ceffffffffcf0000018bcfe56800b76b65792062696e6172792c76616c756520737472696e67"
    "929303ce7fffffffcf000001000000000093050000"
)
RECORD_V2 = (
    "9c02ab7472616e73616374696f6ea43562306607"  # version, mode, query id, batch id
    "01a43030666609"  # state, driver, producer id
    "b873746167696e672f6f75742f372f6d616e69666573742d3007"  # manifest, CRC
    "cf0000018bcfe56800ac76616c75652062696e617279919303002a"  # started, schema, targets
)
MANIFEST_V1 = (
    "93019298a7666c6967687473d92030663066306630663066306630663066306630663066306630663066306630660103a000"
    "030298a7666c6967687473d92030663066306630663066306630663066306630663066306630663066306630660005b47374"
    "6167696e672f6f75742f372f302d30302d30cf00000002000000003d01c403616263"
)


def test_sink_record_v1() -> None:
    targets = (SinkTarget(3, 2**31 - 1, 2**40), SinkTarget(5, 0, 0))
    batch = SinkBatch(
        "relay", "5b0f", 2**40, SinkState.INTENT, "00ff", 2**33, "staging/out/7/manifest-0", 2**32 - 1,
        1_700_000_000_000, "key binary,value string", targets,
    )  # fmt: skip
    assert decode_sink(bytes.fromhex(RECORD_V1)) == batch
    assert encode_sink(batch).hex() == RECORD_V1


def test_sink_record_v2_is_of_a_batch_in_a_transaction() -> None:
    batch = SinkBatch(
        "transaction", "5b0f", 7, SinkState.INTENT, "00ff", 9, "staging/out/7/manifest-0", 7, 1_700_000_000_000,
        "value binary", (SinkTarget(3, 0, 42),),
    )  # fmt: skip
    assert decode_sink(bytes.fromhex(RECORD_V2)) == batch
    assert encode_sink(batch).hex() == RECORD_V2


def test_sink_manifest_v1() -> None:
    parts = (
        StagedPart("flights", "0f" * 16, 1, 3, "", 0, 3, 2),
        StagedPart("flights", "0f" * 16, 0, 5, "staging/out/7/0-00-0", 2**33, 61, 1),
    )
    manifest = SinkManifest(1, parts, b"abc")
    assert msgspec.msgpack.decode(bytes.fromhex(MANIFEST_V1), type=SinkManifest) == manifest
    assert msgspec.msgpack.encode(manifest).hex() == MANIFEST_V1
