import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.maintenance.key_compaction.task_input import CODEC as KEY_COMPACTION
from siltstone.maintenance.key_compaction.task_input import KeyCompactionResult
from siltstone.maintenance.stream_object_compaction.task_input import CODEC as STREAM_OBJECTS
from siltstone.maintenance.stream_object_compaction.task_input import CopyInput, CopyResult
from siltstone.maintenance.stream_set_compaction.task_input import CODEC as STREAM_SETS
from siltstone.maintenance.stream_set_compaction.task_input import IterationResult, WrittenObject
from siltstone.model.limits import MIB
from siltstone.object_store.port import MultipartUpload, UploadedPart
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure, failure_in_one_line, peak_memory_bytes


class Part(msgspec.Struct, frozen=True, array_like=True):
    number: int
    data: bytes


class Given(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    urls: dict[int, str]
    upload: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    failure: TaskFailure | None = None


CODEC = TaskCodec(Given, Answer)
LARGEST = 2**63 - 1
FAILURE = TaskFailure("DamagedBlock: block at 0", 7)

givens = st.builds(
    Given,
    st.lists(st.builds(Part, st.integers(0, LARGEST), st.binary(max_size=20)), max_size=3).map(tuple),
    st.dictionaries(st.integers(0, 100), st.text(max_size=10), max_size=3),
    st.none() | st.text(max_size=10),
)
failures = st.builds(TaskFailure, st.text(max_size=30), st.none() | st.integers(0, LARGEST))
answers = st.builds(Answer, number=st.integers(0, LARGEST), failure=st.none() | failures)


@given(givens)
def test_an_input_survives_its_encoding(value: Given) -> None:
    decoded = CODEC.decode_input(CODEC.encode_input(value))
    assert (decoded, type(decoded), type(decoded.parts)) == (value, Given, tuple)


@given(answers)
def test_a_result_survives_its_encoding(value: Answer) -> None:
    decoded = CODEC.decode_result(CODEC.encode_result(value))
    assert (decoded, type(decoded)) == (value, Answer)
    assert value.failure is None or isinstance(decoded.failure, TaskFailure)


def test_the_same_value_is_the_same_bytes() -> None:
    """So another attempt of a task is given the same input."""
    value = Given((Part(1, b"x"),), {0: "memory://", 1: "file:///b"})
    assert CODEC.encode_input(value) == TaskCodec(Given, Answer).encode_input(value)


def test_what_is_no_input_or_no_result_is_refused() -> None:
    answer = CODEC.encode_result(Answer(number=1, failure=FAILURE))
    with pytest.raises(msgspec.ValidationError, match="parts"):
        CODEC.decode_input(answer)
    with pytest.raises(msgspec.ValidationError, match="number"):
        CODEC.decode_result(CODEC.encode_input(Given((), {})))
    with pytest.raises(msgspec.DecodeError):
        CODEC.decode_result(answer[:-1])


@pytest.mark.parametrize(
    ("codec", "result"),
    [
        (STREAM_SETS, IterationResult(number=3, failure=FAILURE)),
        (
            STREAM_SETS,
            IterationResult(number=3, stream_objects=(WrittenObject(5, 100),), part=UploadedPart(1, 0, 50)),
        ),
        (STREAM_OBJECTS, CopyResult(failure=FAILURE)),
        (KEY_COMPACTION, KeyCompactionResult(name="t-0", failure=FAILURE)),
        (KEY_COMPACTION, KeyCompactionResult(name="t-0", failure=TaskFailure("the map is too small"))),
    ],
)
def test_results_of_every_kind_of_task(codec: TaskCodec, result: object) -> None:
    decoded = codec.decode_result(codec.encode_result(result))
    assert (decoded, type(decoded)) == (result, type(result))


@pytest.mark.parametrize("upload", [None, MultipartUpload("0000", "an upload")])
def test_an_upload_goes_with_the_input(upload: MultipartUpload | None) -> None:
    value = CopyInput(
        bucket_url="memory://", key="0000", upload=upload, source_ids=(4, 5), blocks=b"\x00\xff",
        copied=(), read=(), read_request_bytes_max=MIB,
    )  # fmt: skip
    assert STREAM_OBJECTS.decode_input(STREAM_OBJECTS.encode_input(value)) == value


def test_a_failure_is_one_line_with_the_class_of_the_exception() -> None:
    assert failure_in_one_line(ValueError("first\n\tsecond  third")) == "ValueError: first second third"


def test_the_peak_memory_is_that_of_a_process_in_bytes() -> None:
    """A Python process has at least some megabytes; counted in kibibytes it would be some thousand."""
    before = peak_memory_bytes()
    assert 4 * MIB < before < 2**40
    assert peak_memory_bytes() >= before
