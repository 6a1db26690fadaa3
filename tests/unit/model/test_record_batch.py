from support.engine.batches import batch


def test_length_is_the_payloads():
    assert len(batch(payload_bytes=37)) == 37


def test_equal_whatever_buffer_holds_the_payload():
    one = batch()
    other = type(one)(*(getattr(one, name) for name in one.__struct_fields__[:-1]), memoryview(one.payload))
    assert one == other
