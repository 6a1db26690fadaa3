"""Connections with TLS take their buffers beside the heap in which freed memory is kept."""

import asyncio

from siltstone.runtime.freed_memory import M_MMAP_THRESHOLD, TAKEN_APART_BYTES_MIN
from siltstone.server.python_process import BUFFER_BYTES_MIN, KeptHeap


class Glibc:
    """Notes what is asked of ``mallopt``, and which connections are made between."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def mallopt(self, option: int, value: int) -> int:
        assert option == M_MMAP_THRESHOLD
        self.noted.append(value)
        return 1

    async def connect(self, name: str, *, ssl: object = None) -> str:
        self.noted.append(name)
        await asyncio.sleep(0)
        return name


def test_only_the_first_step_of_a_connection_with_tls_takes_large_pieces_beside_the_heap() -> None:
    glibc = Glibc()
    connect = KeptHeap(glibc.mallopt).spared(glibc.connect)

    async def main() -> None:
        assert await connect("plain") == "plain"
        assert await asyncio.gather(connect("a", ssl=1), connect("b", ssl=1)) == ["a", "b"]
        await asyncio.sleep(0)
        assert await connect("c", ssl=1) == "c"
        await asyncio.sleep(0)

    asyncio.run(main())
    apart, back = BUFFER_BYTES_MIN, TAKEN_APART_BYTES_MIN
    assert glibc.noted == ["plain", apart, "a", "b", back, apart, "c", back]
