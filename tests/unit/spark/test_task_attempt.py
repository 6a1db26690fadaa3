"""One attempt of a task, without Spark."""

import gc
import sys

import pytest

from siltstone.spark import task_attempt
from siltstone.spark.task_attempt import TaskFailed, attempt_of, freeze_heap


def test_each_unit_gives_its_result() -> None:
    assert list(attempt_of(bytes.upper)(iter([b"a", b"b"]))) == [b"A", b"B"]


def test_a_failure_is_told_in_one_marked_line() -> None:
    def task(unit: bytes) -> bytes:
        raise ValueError("at 4096\nis damaged")

    with pytest.raises(TaskFailed) as raised:
        list(attempt_of(task)(iter([b"a"])))
    assert str(raised.value) == "task failed: ValueError: at 4096 is damaged"
    assert isinstance(raised.value.__cause__, ValueError)


def test_the_heap_is_frozen_again_only_after_new_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("frozen"))
    monkeypatch.setattr(task_attempt, "_modules_when_frozen", 0)
    freeze_heap()
    freeze_heap()
    assert frozen == ["frozen"]
    monkeypatch.setitem(sys.modules, "a_module_that_a_task_imported", sys)
    freeze_heap()
    assert frozen == ["frozen", "frozen"]
