"""Collects from sources without a network, and reads a scrape with Prometheus' own Python library, in both formats."""

import asyncio
import math
import socket
from collections.abc import Sequence

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from siltstone.server.admin.exposition import Series, TextFormat
from siltstone.server.admin.scrape import Collected, MetricSource

Scrape = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Value by the name of a sample and its labels in the order of their names."""


def collected_of(*sources: MetricSource) -> Collected:
    async def main() -> Collected:
        return await collected_on_loop(*sources)

    return asyncio.run(main())


async def collected_on_loop(*sources: MetricSource) -> Collected:
    collected = Collected()
    for source in sources:
        async for _ in source.collect(collected):
            pass
    return collected


def rows_of(collected: Collected, name: str) -> dict[tuple[str, ...], object]:
    """The values of one family by the values of its labels."""
    found: Sequence[Series] = next(rows for family, rows in collected.series.items() if family.name == name)
    return {series.labels: series.value for series in found}


def parsed(text: str, text_format: TextFormat) -> Scrape:
    """Parses a scrape. Raises ValueError if the text is not in the format, and AssertionError if a series is there
    twice."""
    parse = parse_openmetrics if text_format is TextFormat.OPENMETRICS else parse_prometheus
    samples: Scrape = {}
    for family in parse(text):
        assert family.documentation and family.type != "unknown", family
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples, f"{key} is there twice"
            assert not math.isnan(sample.value)
            samples[key] = sample.value
    return samples


def value_of(scrape: Scrape, name: str, **labels: str) -> float:
    return scrape[name, tuple(sorted(labels.items()))]


def values_of(scrape: Scrape, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {labels: value for (sample, labels), value in scrape.items() if sample == name}


# -- over HTTP -----------------------------------------------------------------------------------------------


def http_bytes(address: tuple[str, int], request: bytes, *, seconds_max: float = 10.0) -> bytes:
    """Returns everything that arrives until the server closes the connection."""
    with socket.create_connection(address, timeout=seconds_max) as connection:
        connection.sendall(request)
        answer = bytearray()
        while piece := connection.recv(65_536):
            answer += piece
    return bytes(answer)


def http_get(address: tuple[str, int], path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers by their names in lower case, and body."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {address[0]}:{address[1]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    answer = http_bytes(address, "\r\n".join([*lines, "", ""]).encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    found = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    assert len(body) == int(found["content-length"])
    return int(status.split()[1]), found, body.decode()


def scrape(address: tuple[str, int], text_format: TextFormat = TextFormat.OPENMETRICS) -> Scrape:
    status, headers, text = http_get(address, "/metrics", Accept=text_format.value.partition(";")[0])
    assert (status, headers["content-type"]) == (200, text_format.value)
    return parsed(text, text_format)
