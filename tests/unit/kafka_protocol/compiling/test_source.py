"""Text in the making."""

from siltstone.kafka_protocol.compiling.source import CodecSource


def test_blocks_indent_and_end() -> None:
    source = CodecSource()
    with source.block("if a:"):
        with source.block("for b in a:"):
            source.line("c(b)")
        source.line("d()")
    source.line("e()")
    assert source.text() == "if a:\n    for b in a:\n        c(b)\n    d()\ne()\n"


def test_names_are_fresh() -> None:
    source = CodecSource()
    assert [source.name("n"), source.name("n"), source.name("v")] == ["n1", "n2", "v3"]


def test_constants_are_kept_under_names_of_their_own() -> None:
    source = CodecSource(given=1)
    names = [source.constant("default", value) for value in ("a", "b")]
    assert source.constants == {"given": 1, names[0]: "a", names[1]: "b"}
    assert len({*names}) == 2


def test_one_struct_for_each_run_of_codes() -> None:
    source = CodecSource()
    assert source.method_of_struct("ih?", "pack") == source.method_of_struct("ih?", "pack") == "pack_ihT"
    assert source.constants["pack_ihT"](1, 2, True) == b"\x00\x00\x00\x01\x00\x02\x01"
    assert source.constants["pack_ihT"] is source.constants[source.method_of_struct("ih?", "pack")]
