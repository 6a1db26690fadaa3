"""The metadata of a store with 10,000 partitions and 100,000 objects."""

from siltstone.metadata.image import MetadataImage
from support.console.images import ImageBuilder

PARTITIONS, OBJECTS = 10_000, 100_000


def large_store() -> MetadataImage:
    """Returns 10,000 topics of one partition with ten objects each, a thousand of them shared by ten streams."""
    built = ImageBuilder()
    for number in range(PARTITIONS):
        first = number * 10
        ranges = [(first + each, each * 100, each * 100 + 100, 1_000) for each in range(10)]
        built.topic(f"topic-{number:05d}", *ranges)
    return built.image(version=7)
