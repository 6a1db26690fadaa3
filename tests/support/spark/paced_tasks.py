"""``read_at_pace`` is a task for executors that reads under a pace."""

from siltstone.offline.tasks.pacing import running_pace
from siltstone.offline.tasks.source_bytes import store_at


def read_at_pace(given: bytes) -> bytes:
    """Reads bytes of the object ``a``. ``given``: the URL of the bucket and the number of bytes. Returns the task's
    share of the rate."""
    url, size_bytes = given.decode().split()
    assert len(store_at(url).get_range("a", 0, int(size_bytes))) == int(size_bytes)
    pace = running_pace()
    return b"none" if pace is None else b"%d" % pace.bytes_per_second
