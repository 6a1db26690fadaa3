import pytest

from support.broker.in_process import InProcessBroker


@pytest.fixture
def topic(broker: InProcessBroker) -> str:
    """Two partitions; the second one has 10 records."""
    broker.siltstone("topics", "create", "t", "--partitions", 2)
    broker.siltstone("produce", "t", "--partition", 1, stdin=b"x\n" * 10)
    return "t"
