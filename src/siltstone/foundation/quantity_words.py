"""Numbers, sizes and durations as people read them."""

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_words(size_bytes: int) -> str:
    """1536 → ``1.5 KiB``: three digits or so, never rounded up to 1024 of a unit."""
    size = float(size_bytes)
    unit = 0
    while size >= 1023.95 and unit + 1 < len(_BINARY_UNITS):
        size /= 1024
        unit += 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_BINARY_UNITS[unit]}"


def count_words(count: int) -> str:
    return f"{count:,}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 object``, ``2 objects``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def seconds_words(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
