"""Which partition of ``__consumer_offsets`` a group belongs to: Kafka's rule, so that tools which compute it agree."""


def partition_of_group(group_id: str, partition_count: int) -> int:
    """|hash| mod count, where the hash is Java's of a String and the most negative number counts as 0."""
    hashed = java_string_hash(group_id)
    return 0 if hashed == -(2**31) else abs(hashed) % partition_count


def java_string_hash(text: str) -> int:
    """Over UTF-16 code units, in 32-bit arithmetic."""
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed
