"""What Kafka's reader takes of an lz4 stream [Kafka's Lz4BlockInputStream]: the first frame, without a dictionary,
and each block by itself, whatever the frame says of linked blocks.

    bytes    hold
    0 … 3    the magic number of a frame
    4        flags: version, separate blocks, checksum of blocks, content size, checksum of the content, 0, dictionary
    5        the size of blocks
    (8)      the content size, if the flags say so
    1        the second byte of the xxHash-32 of what is between the magic number and it
"""

from siltstone.kafka_protocol.batch_errors import DecompressionFailed
from siltstone.model.buffers import Buffer

FRAME_MAGIC = b"\x04\x22\x4d\x18"
_SEPARATE_BLOCKS, _CONTENT_SIZE, _NOT_KNOWN = 0x20, 0x08, 0x03
_FLAGS_AT = len(FRAME_MAGIC)
_MASK = 0xFFFFFFFF
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def with_separate_blocks(data: memoryview) -> Buffer:
    """Returns the stream, in which the blocks of the first frame are separate: a block that refers to the one before
    then cannot be read, as it cannot by Kafka's reader. Raises DecompressionFailed if that reader knows no such
    frame."""
    if data[:_FLAGS_AT] != FRAME_MAGIC:
        raise DecompressionFailed(
            "the records do not begin with a frame of lz4, and Kafka's reader knows nothing else"
        )
    flags = data[_FLAGS_AT] if len(data) > _FLAGS_AT else 0
    if flags & _NOT_KNOWN:
        raise DecompressionFailed(
            "the records are an lz4 frame with a dictionary, which Kafka's reader does not know"
        )
    if flags & _SEPARATE_BLOCKS:
        return data
    checksum_at = _FLAGS_AT + 2 + (8 if flags & _CONTENT_SIZE else 0)
    header = bytes(data[_FLAGS_AT:checksum_at])
    if len(data) <= checksum_at or data[checksum_at] != _checksum(header):
        raise DecompressionFailed("the header of the lz4 frame is damaged, or ends early")
    changed = bytes([flags | _SEPARATE_BLOCKS]) + header[1:]
    return b"".join((FRAME_MAGIC, changed, bytes([_checksum(changed)]), data[checksum_at + 1 :]))


def _checksum(header: bytes) -> int:
    return xxh32_of_few(header) >> 8 & 0xFF


def xxh32_of_few(data: bytes) -> int:
    """Returns the xxHash-32 of fewer than 16 bytes, with the seed 0."""
    assert len(data) < 16
    state = (_PRIMES[4] + len(data)) & _MASK
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        state = (state + int.from_bytes(data[at : at + 4], "little") * _PRIMES[2]) & _MASK
        state = _rotated(state, 17) * _PRIMES[3] & _MASK
    for byte in data[whole:]:
        state = (state + byte * _PRIMES[4]) & _MASK
        state = _rotated(state, 11) * _PRIMES[0] & _MASK
    state = (state ^ state >> 15) * _PRIMES[1] & _MASK
    state = (state ^ state >> 13) * _PRIMES[2] & _MASK
    return state ^ state >> 16


def _rotated(state: int, by: int) -> int:
    return (state << by | state >> (32 - by)) & _MASK
