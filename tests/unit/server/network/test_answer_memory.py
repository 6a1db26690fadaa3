from siltstone.server.network.answer_memory import AnswerMemory
from support.kafka.network_world import turns
from support.scenarios import in_loop


class Writer:
    def __init__(self, name: str = "", unread: int = 0) -> None:
        self.name = name
        self.unread_bytes = unread
        self.is_closed = False
        self.went_on = False

    def go_on(self) -> None:
        self.went_on = True

    def close_for_unread_answers(self) -> None:
        self.is_closed = True


@in_loop
async def test_from_half_the_limit_on_one_waits() -> None:
    memory = AnswerMemory(100)
    reader, slow = Writer(), Writer(unread=49)
    memory.note(slow)
    assert memory.line.admits(reader)
    slow.unread_bytes = 50
    memory.note(slow)
    assert not memory.line.admits(reader)
    memory.forget(slow)
    await turns()
    assert reader.went_on
    assert memory.bytes_used == 0


@in_loop
async def test_what_was_taken_meanwhile_counts_when_one_looks() -> None:
    memory = AnswerMemory(100)
    reader, slow = Writer(), Writer(unread=80)
    memory.note(slow)
    memory.line.admits(reader)
    slow.unread_bytes = 20
    assert memory.bytes_used == 80
    memory.refresh()
    assert memory.bytes_used == 20
    await turns()
    assert reader.went_on


def test_at_the_limit_the_one_with_most_unread_is_closed() -> None:
    writers = [Writer(unread=size) for size in (20, 45, 30)]
    memory = AnswerMemory(100)
    for writer in writers:
        memory.note(writer)
    assert not any(writer.is_closed for writer in writers)
    writers[0].unread_bytes = 26
    memory.note(writers[0])

    assert [writer.is_closed for writer in writers] == [False, True, False]
    assert memory.bytes_used == 56


def test_nobody_is_closed_for_what_has_been_taken() -> None:
    writers = [Writer(unread=size) for size in (60, 39)]
    memory = AnswerMemory(100)
    for writer in writers:
        memory.note(writer)
    writers[0].unread_bytes = 10
    writers[1].unread_bytes = 41
    memory.note(writers[1])

    assert not any(writer.is_closed for writer in writers)
    assert memory.bytes_used == 51


@in_loop
async def test_who_leaves_is_neither_counted_nor_called() -> None:
    memory = AnswerMemory(100)
    gone, slow = Writer(), Writer(unread=90)
    memory.note(slow)
    memory.line.admits(gone)
    memory.line.leave(gone)
    memory.forget(slow)
    memory.forget(slow)
    await turns()
    assert memory.bytes_used == 0
    assert not gone.went_on
