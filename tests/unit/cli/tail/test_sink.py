import io
import os

import pytest

from siltstone.cli.tail.sink import GATHERED_BYTES, ReaderGone, Sink


def test_lines_are_gathered_until_a_pause() -> None:
    stream = io.BytesIO()
    sink = Sink(stream)
    sink.write(b"a\n")
    assert stream.getvalue() == b""
    sink.flush()
    sink.flush()
    assert stream.getvalue() == b"a\n"


def test_no_more_is_gathered_than_a_bit() -> None:
    stream = io.BytesIO()
    sink = Sink(stream)
    for _ in range(100):
        sink.write(b"x" * (GATHERED_BYTES // 10))
    assert len(stream.getvalue()) >= 9 * GATHERED_BYTES


@pytest.mark.parametrize("lines", [[b"a\n"], []])
def test_a_reader_that_is_gone_is_noticed_with_or_without_something_to_write(lines: list[bytes]) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as stream:
        sink = Sink(stream)
        sink.write(b"first\n")
        sink.flush()
        os.close(read_end)
        with pytest.raises(ReaderGone):
            for each in lines or [None]:
                if each is not None:
                    sink.write(each)
                sink.flush()
        stream.write(b"what Python still has in its buffer goes nowhere")
