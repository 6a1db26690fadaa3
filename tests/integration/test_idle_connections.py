"""What an idle connection with TLS costs ``siltstone serve``: row z4 of the benchmarks in small."""

import os
import socket
import ssl
from importlib.util import find_spec
from pathlib import Path

import pytest

from siltstone.model.limits import KIB
from support.broker.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.xdist_group("tls"),
    pytest.mark.skipif(find_spec("uvloop") is None, reason="asyncio's own TLS takes 282 KiB"),
    pytest.mark.skipif(any(name.startswith("MALLOC_") for name in os.environ), reason="glibc has settings"),
]

CONNECTIONS = 400


def test_an_idle_connection_with_tls_takes_less_than_40_kib(tmp_path: Path) -> None:
    """Each takes a buffer of 256 KiB, which would be dirty in a heap that is in use."""
    with BrokerProcess(tmp_path / "store", options=("--tls-self-signed",)) as broker:
        context = ssl.create_default_context(cafile=str(tmp_path / "store" / "tls" / "ca.pem"))
        opened: list[ssl.SSLSocket] = []

        def open_more(count: int) -> int:
            for _ in range(count):
                plain = socket.create_connection(broker.address, timeout=60)
                opened.append(context.wrap_socket(plain, server_hostname=broker.address[0]))
            return broker.resident_bytes

        before = open_more(100)
        taken = (open_more(CONNECTIONS) - before) / CONNECTIONS
        for each in opened:
            each.close()
    assert taken < 40 * KIB
