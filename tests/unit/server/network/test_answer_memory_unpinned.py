from siltstone.server.network.answer_memory import HELD_PER_SENT_MAX, unpinned

WHOLE = bytes(range(256)) * 4


def views(*ends: tuple[int, int]) -> list[memoryview]:
    whole = memoryview(WHOLE)
    return [whole[start:end] for start, end in ends]


def test_a_small_slice_of_something_large_holds_it_no_more() -> None:
    (small,) = views((3, 13))
    (copied,) = unpinned([small])
    assert type(copied) is bytes
    assert copied == WHOLE[3:13]


def test_what_is_sent_for_the_most_part_is_not_copied() -> None:
    least = len(WHOLE) // HELD_PER_SENT_MAX
    (large,) = views((0, least))
    assert unpinned([large])[0] is large
    (too_small,) = views((0, least - 1))
    assert unpinned([too_small])[0] is not too_small


def test_all_slices_of_one_whole_count_together() -> None:
    slices = views(*((at, at + 32) for at in range(0, len(WHOLE), 32)))
    assert all(after is before for after, before in zip(unpinned([*slices]), slices, strict=True))


def test_what_is_no_slice_stays_as_it_is() -> None:
    answers = [b"head", bytearray(b"x"), *views((0, 4)), b"tail"]
    done = unpinned(answers)
    assert b"".join(done) == b"".join(answers)
    assert (done[0] is answers[0], done[1] is answers[1], done[3] is answers[3]) == (True, True, True)
    alone = [b"head"]
    assert unpinned(alone) is alone
