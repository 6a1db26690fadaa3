import pytest

from siltstone.broker.fetching.sessions import (
    EPOCH_MAX,
    FetchSessions,
    SentState,
    SessionPartition,
    SessionRefused,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.limits import FETCH_SESSION_IDLE_MS_MIN

ID = b"\1" * 16


def asked(index: int, offset: int = 0, name: str = "", topic_id: bytes = ID) -> SessionPartition:
    return SessionPartition((name, topic_id, index), offset, 1_000, -1, -1, -1)


def keys(session):
    return [key[2] for key in session.partitions]


class Sessions:
    """With topic ids, at a time that moves on by hand."""

    def __init__(self, sessions_max: int = 10, partitions_max: int = 100) -> None:
        self.sessions = FetchSessions(sessions_max, partitions_max)
        self.now_ms = 0.0

    def begin(self, session_id: int, *indexes: int):
        return self.sessions.begin(session_id, [asked(index) for index in indexes], True, self.now_ms)

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool = True):
        return self.sessions.resume(session_id, epoch, uses_topic_ids, self.now_ms)

    def refusal(self, session_id: int, epoch: int, uses_topic_ids: bool = True) -> ErrorCode:
        with pytest.raises(SessionRefused) as refused:
            self.resume(session_id, epoch, uses_topic_ids)
        return refused.value.code


def test_item_34_a_session_counts_its_requests():
    sessions = Sessions()
    session = sessions.begin(5, 0, 1)
    assert (session.session_id, keys(session)) == (5, [0, 1])
    assert sessions.resume(5, 1) is session
    assert sessions.resume(5, 2) is session
    for epoch in (0, 1, 2, 4, -1, EPOCH_MAX):
        assert sessions.refusal(5, epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.resume(5, 3) is session


def test_the_count_begins_again_at_1():
    sessions = Sessions()
    session = sessions.begin(5, 0)
    session.next_epoch = EPOCH_MAX
    sessions.resume(5, EPOCH_MAX)
    assert sessions.resume(5, 1) is session


@pytest.mark.parametrize("session_id", [0, 6, -1])
def test_a_session_that_there_is_not(session_id):
    sessions = Sessions()
    sessions.begin(5, 0)
    assert sessions.refusal(session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_ids_is_none_by_names():
    sessions = Sessions()
    sessions.begin(5, 0)
    assert sessions.refusal(5, 1, uses_topic_ids=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.resume(5, 1).next_epoch == 2


def test_ended_sessions_are_gone():
    sessions = Sessions()
    sessions.begin(5, 0, 1)
    sessions.sessions.end(5)
    sessions.sessions.end(5)
    sessions.sessions.end(6)
    assert sessions.refusal(5, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions.sessions), sessions.sessions.partition_count) == (0, 0)


def test_item_34_changes():
    sessions = Sessions()
    session = sessions.begin(5, 0, 1, 2)
    sessions.sessions.change(session, [asked(1, offset=9), asked(7)], [("", ID, 0), ("", ID, 99)])
    assert keys(session) == [1, 2, 7]
    assert [partition.fetch_offset for partition in session.partitions.values()] == [9, 0, 0]
    assert sessions.sessions.partition_count == 3


def test_item_34_what_is_asked_and_forgotten_at_once_is_forgotten():
    sessions = Sessions()
    session = sessions.begin(5, 0, 1)
    sessions.sessions.change(session, [asked(2)], [("", ID, 2)])
    assert keys(session) == [0, 1]


def test_a_session_that_holds_nothing_ends():
    sessions = Sessions()
    session = sessions.begin(5, 0)
    sessions.sessions.change(session, [], [("", ID, 0)])
    assert len(sessions.sessions) == sessions.sessions.partition_count == 0
    assert sessions.begin(6) is None


def test_only_news_is_told():
    session = Sessions().begin(5, 0)
    key = ("", ID, 0)
    assert session.is_news(key, SentState(4, 0), has_data=False)
    assert not session.is_news(key, SentState(4, 0), has_data=False)
    assert session.is_news(key, SentState(4, 0), has_data=True)
    assert session.is_news(key, SentState(5, 0), has_data=False)
    assert session.is_news(key, SentState(5, 3), has_data=False)
    assert not session.is_news(key, SentState(5, 3), has_data=False)
    session.forget_state(key)
    assert session.is_news(key, SentState(5, 3), has_data=False)


def test_who_had_data_has_its_next_turn_last():
    session = Sessions().begin(5, 0, 1, 2)
    session.is_news(("", ID, 0), SentState(1, 0), has_data=True)
    assert keys(session) == [1, 2, 0]
    session.is_news(("", ID, 1), SentState(1, 0), has_data=False)
    assert keys(session) == [1, 2, 0]


def test_a_partition_forgotten_and_asked_again_is_news():
    sessions = Sessions()
    session = sessions.begin(5, 0, 1)
    session.is_news(("", ID, 0), SentState(1, 0), has_data=False)
    sessions.sessions.change(session, [], [("", ID, 0)])
    sessions.sessions.change(session, [asked(0)], [])
    assert session.is_news(("", ID, 0), SentState(1, 0), has_data=False)


def test_what_left_the_session_meanwhile_is_not_remembered():
    session = Sessions().begin(5, 0, 1)
    assert session.is_news(("", ID, 9), SentState(1, 0), has_data=True)
    assert keys(session) == [0, 1]


# -- bounds ----------------------------------------------------------------------------------------------------


def test_a_session_used_of_late_is_not_given_up_for_a_new_one():
    sessions = Sessions(sessions_max=2)
    sessions.begin(1, 0)
    sessions.begin(2, 0)
    sessions.now_ms = FETCH_SESSION_IDLE_MS_MIN - 1
    assert sessions.begin(3, 0) is None
    sessions.resume(1, 1)
    sessions.now_ms = FETCH_SESSION_IDLE_MS_MIN
    assert sessions.begin(3, 0) is not None  # in the place of 2
    assert sessions.refusal(2, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.begin(4, 0) is None
    assert sessions.resume(1, 2) is not None


def test_partitions_of_all_sessions_are_bounded():
    sessions = Sessions(partitions_max=5)
    sessions.begin(1, 0, 1)
    sessions.begin(2, 0, 1)
    assert sessions.begin(3, 0, 1) is None
    assert sessions.begin(3, 0) is not None
    sessions.now_ms = FETCH_SESSION_IDLE_MS_MIN
    assert sessions.begin(4, 0, 1, 2) is not None
    assert sessions.sessions.partition_count == 4
    assert len(sessions.sessions) == 2


def test_one_that_would_never_fit_costs_nobody_his_session():
    sessions = Sessions(partitions_max=5)
    sessions.begin(1, 0, 1)
    sessions.now_ms = FETCH_SESSION_IDLE_MS_MIN
    assert sessions.begin(2, *range(6)) is None
    assert sessions.resume(1, 1) is not None


def test_a_session_that_grows_too_large_ends():
    sessions = Sessions(partitions_max=5)
    session = sessions.begin(1, 0, 1)
    sessions.sessions.change(session, [asked(index) for index in range(5)], [])
    with pytest.raises(SessionRefused) as refused:
        sessions.sessions.change(session, [asked(5)], [])
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions.sessions), sessions.sessions.partition_count) == (0, 0)


def test_names_that_no_topic_can_have_are_not_kept():
    sessions = FetchSessions(10)
    assert sessions.begin(1, [asked(0, name="n" * 250)], False, 0) is None
    session = sessions.begin(1, [asked(0, name="n" * 249)], False, 0)
    with pytest.raises(SessionRefused):
        sessions.change(session, [asked(0, name="n" * 30_000)], [])
    assert len(sessions) == sessions.partition_count == 0


def test_an_id_that_is_in_use_is_not_given_again():
    sessions = Sessions()
    first = sessions.begin(1, 0)
    assert sessions.begin(1, 0) is None
    assert sessions.resume(1, 1) is first
