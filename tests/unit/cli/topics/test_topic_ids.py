from siltstone.cli.topics.topic_ids import written_topic_id


def test_as_kafkas_tools_write_it() -> None:
    """Java: ``new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L).toString()``."""
    assert written_topic_id(bytes(range(1, 17))) == "AQIDBAUGBwgJCgsMDQ4PEA"
    assert written_topic_id(b"\xff" * 16) == "_" * 21 + "w"
