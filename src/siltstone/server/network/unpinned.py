"""Answers that hold no more memory than they count for.

A batch that was read from the bucket is a slice of its block, half a MiB and more. As long as it waits to be sent it
keeps all of that, evicted from the cache or not, and is counted for its own bytes: a thousand slow readers of small
batches would hold what no limit knows of (rule 9).
"""

from siltstone.model.buffers import Buffer

HELD_PER_SENT_MAX = 4
"""What an answer may hold for each byte of it. So what is copied is never much: a quarter of a block."""


def unpinned(answers: list[Buffer]) -> list[Buffer]:
    """The same bytes; slices of which too little of their whole is sent are copied."""
    sent_of: dict[int, int] = {}
    whole_of: dict[int, object] = {}
    for answer in answers:
        if isinstance(answer, memoryview):
            whole = answer.obj
            number = id(whole)
            whole_of[number] = whole
            sent_of[number] = sent_of.get(number, 0) + len(answer)
    small = {
        number
        for number, sent_bytes in sent_of.items()
        if HELD_PER_SENT_MAX * sent_bytes < memoryview(whole_of[number]).nbytes  # type: ignore[arg-type]
    }
    return [_copied_if(answer, small) for answer in answers] if small else answers


def _copied_if(answer: Buffer, small: set[int]) -> Buffer:
    return bytes(answer) if isinstance(answer, memoryview) and id(answer.obj) in small else answer
