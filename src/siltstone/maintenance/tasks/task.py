"""What all tasks share: what a task is, how its input and its result are encoded, and how it names an object to
blame."""

import resource
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

Task = Callable[[bytes], bytes]
"""A module-level function of this package that takes an encoded task input and returns an encoded result. A runner may
call it in another process, more than once, and at the same time as another call with the same input: every call writes
the same bytes to the same places."""

Input = TypeVar("Input")
Result = TypeVar("Result")


class TaskFailure(msgspec.Struct, frozen=True, array_like=True):
    """Why a task has no result although its runner is well, in one line. ``object_id`` is the source object to blame;
    None when no single object is."""

    reason: str
    object_id: int | None = None


class TaskCodec(Generic[Input, Result]):
    """Encodes and decodes the task inputs and results of one sort of task, as msgpack."""

    def __init__(self, input_type: type[Input], result_type: type[Result]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._inputs = msgspec.msgpack.Decoder(input_type)
        self._results = msgspec.msgpack.Decoder(result_type)

    def encode_input(self, given: Input) -> bytes:
        return self._encoder.encode(given)

    def decode_input(self, data: bytes) -> Input:
        return self._inputs.decode(data)

    def encode_result(self, result: Result) -> bytes:
        return self._encoder.encode(result)

    def decode_result(self, data: bytes) -> Result:
        return self._results.decode(data)


def failure_in_one_line(failure: BaseException) -> str:
    """The class of an exception and its text, for a terminal and a log."""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"


def peak_memory_bytes() -> int:
    """The largest resident size of this process so far (``getrusage`` counts kibibytes on Linux, bytes on macOS)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
