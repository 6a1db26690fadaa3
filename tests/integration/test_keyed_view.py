"""A topic as the table of its keys, in Python and at a terminal, with a real broker."""

import threading

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.kafka_client.keyed_view import KeyedViewNotEntered, KeyedViewOutdated, KeyedViewTooLarge
from siltstone.model.limits import KEYED_VIEW_ENTRY_BYTES
from siltstone.server.embedded import Broker
from support.processes.cli import run


class Writer:
    def __init__(self, broker: Broker, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        self._topic = topic

    def put(self, **pairs: bytes | None) -> None:
        for key, value in pairs.items():
            self._producer.produce(self._topic, value, key.encode())
        assert self._producer.flush(30) == 0


@pytest.fixture
def writer(siltstone_broker: Broker, siltstone_topic: str) -> Writer:
    return Writer(siltstone_broker, siltstone_topic)


def view_of(broker: Broker, topic: str, **settings: int) -> siltstone.KeyedView:
    return siltstone.KeyedView(broker.bootstrap_servers, topic, **settings)


def test_of_each_key_the_newest_value_and_tombstones_remove(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"1", b=b"1", c=b"1")
    writer.put(a=b"2", b=None)
    with view_of(siltstone_broker, siltstone_topic) as view:
        assert dict(view) == {b"a": b"2", b"c": b"1"}
        assert view.entry(b"a").offset == 3
        assert b"b" not in view and len(view) == 2
        with pytest.raises(KeyError):
            view[b"b"]


def test_items_and_values_are_of_one_moment_while_a_thread_deletes_their_keys(
    siltstone_broker, siltstone_topic, writer
):
    writer.put(a=b"1", b=b"2", c=b"3")
    with view_of(siltstone_broker, siltstone_topic) as view:
        items, values, keys = iter(view.items()), iter(view.values()), iter(view)
        of_before = view.keys()
        assert (next(items), next(values), next(keys)) == ((b"a", b"1"), b"1", b"a")
        deleting = threading.Thread(target=writer.put, kwargs={"a": None, "b": None, "c": b"4"})
        deleting.start()
        deleting.join()
        view.catch_up(30)
        assert list(items) == [(b"b", b"2"), (b"c", b"3")]
        assert list(values) == [b"2", b"3"]
        assert list(keys) == [b"b", b"c"]
        assert {key: view[key] for key in of_before} == {b"a": b"1", b"b": b"2", b"c": b"3"}
        assert [key in view for key in of_before] == [False, False, True]
        assert dict(view.items()) == dict(view) == {b"c": b"4"}


def test_copies_of_a_view_never_miss_a_key_while_tombstones_arrive(siltstone_broker, siltstone_topic, writer):
    names = [f"k{number}" for number in range(200)]
    writer.put(**dict.fromkeys(names, b"x"))
    with view_of(siltstone_broker, siltstone_topic) as view:

        def write_and_delete() -> None:
            for _ in range(30):
                writer.put(**dict.fromkeys(names, b"x"))
                writer.put(**dict.fromkeys(names, None))

        writing = threading.Thread(target=write_and_delete)
        writing.start()
        copied = 0
        while writing.is_alive():
            assert set(dict(view.items()).values()) <= {b"x"}
            assert set(dict(view).values()) <= {b"x"}
            assert set(view.values()) <= {b"x"}
            copied += len(view.items())
        writing.join()
        assert copied > 0
        view.catch_up(30)
        assert (len(view), view.size_bytes) == (0, 0)


def test_a_key_that_is_a_text_is_refused_instead_of_missed(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"1")
    with view_of(siltstone_broker, siltstone_topic) as view:
        for asked in (lambda: view["a"], lambda: "a" in view, lambda: view.get("a"), lambda: view.entry("a")):
            with pytest.raises(TypeError, match="keys are bytes, such as b'a'"):
                asked()


def test_a_view_that_was_not_entered_holds_nothing_to_look_up(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"1")
    view = view_of(siltstone_broker, siltstone_topic)
    for asked in (lambda: view[b"a"], lambda: len(view), lambda: list(view)):
        with pytest.raises(KeyedViewNotEntered, match="with KeyedView"):
            asked()
    with view:
        assert view[b"a"] == b"1"
    assert view[b"a"] == b"1", "what was read stays readable"


def test_a_program_that_does_not_close_a_view_can_end(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"1")
    with view_of(siltstone_broker, siltstone_topic):
        (follows,) = (each for each in threading.enumerate() if each.name == f"keyed-view-{siltstone_topic}")
        assert follows.daemon


def test_what_was_acknowledged_before_catch_up_is_found_after_it(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"0")
    with view_of(siltstone_broker, siltstone_topic) as view:
        for number in range(5):
            writer.put(a=str(number).encode(), **{f"k{number}": b"x"})
            view.catch_up(30)
            assert view[b"a"] == str(number).encode()
        assert len(view) == 6
        assert view.positions[0] == 11


def test_records_without_a_key_are_passed_over(siltstone_broker, siltstone_topic):
    producer = Producer({"bootstrap.servers": siltstone_broker.bootstrap_servers})
    producer.produce(siltstone_topic, b"no key")
    assert producer.flush(30) == 0
    with view_of(siltstone_broker, siltstone_topic) as view:
        assert dict(view) == {} and view.positions == {0: 1}
        assert view.records_without_key == 1
    shown = run("table", siltstone_topic, "--bootstrap", siltstone_broker.bootstrap_servers)
    assert "0 keys, 0 B in memory; 1 record without a key was skipped" in " ".join(shown.err.split())


def test_values_are_counted_and_limited(siltstone_broker, siltstone_topic, writer):
    writer.put(a=bytes(1000))
    with view_of(siltstone_broker, siltstone_topic, bytes_max=2000) as view:
        writer.put(a=bytes(900))
        view.catch_up(30)
        assert 900 < view.size_bytes < 1300
        writer.put(b=bytes(900), c=bytes(900))
        with pytest.raises(KeyedViewTooLarge, match="more than 2,000 bytes"):
            view.catch_up(30)
        with pytest.raises(KeyedViewTooLarge):
            len(view)


def test_reading_while_it_changes_is_reading_one_moment(siltstone_broker, siltstone_topic, writer):
    writer.put(**{f"k{number}": b"0" for number in range(200)})
    ended = threading.Event()

    def write_on() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            writer.put(**{f"n{number}": b"1"})

    with view_of(siltstone_broker, siltstone_topic) as view:
        writing = threading.Thread(target=write_on)
        writing.start()
        try:
            for _ in range(200):
                assert len([key for key in view if key.startswith(b"k")]) == 200
        finally:
            ended.set()
            writing.join()


class HeldView(siltstone.KeyedView):
    """Takes nothing in while it is held."""

    def __init__(self, broker: Broker, topic: str) -> None:
        super().__init__(broker.bootstrap_servers, topic)
        self.going_on, self.reached = threading.Event(), threading.Event()
        self.going_on.set()

    def _take(self, where, record) -> None:
        self.reached.set()
        assert self.going_on.wait(60)
        super()._take(where, record)

    def hold(self, writer: Writer) -> None:
        self.going_on.clear()
        self.reached.clear()
        writer.put(held=b"x")
        assert self.reached.wait(60)


def test_what_was_trimmed_before_it_was_read_leaves_nothing_stale(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"1", b=b"1")
    admin = AdminClient({"bootstrap.servers": siltstone_broker.bootstrap_servers})
    with HeldView(siltstone_broker, siltstone_topic) as view:
        view.hold(writer)
        writer.put(a=None, b=b"2")
        end = TopicPartition(siltstone_topic, 0, 5)
        (trimmed,) = admin.delete_records([end]).values()
        assert trimmed.result(60).low_watermark == 5
        writer.put(c=b"3")
        view.going_on.set()
        view.catch_up(30)
        assert dict(view) == {b"c": b"3"}, "a was removed and b is no more 1, but nobody can read that now"
        assert view.size_bytes == len(b"c3") + KEYED_VIEW_ENTRY_BYTES


def test_a_topic_made_anew_behind_its_back_is_told(siltstone_broker, siltstone_topic, writer):
    writer.put(a=b"1", b=b"1")
    admin = AdminClient({"bootstrap.servers": siltstone_broker.bootstrap_servers})
    with HeldView(siltstone_broker, siltstone_topic) as view:
        view.hold(writer)
        admin.delete_topics([siltstone_topic])[siltstone_topic].result(60)
        admin.create_topics([NewTopic(siltstone_topic, 1, 1)])[siltstone_topic].result(60)
        writer.put(new=b"2")
        view.going_on.set()
        with pytest.raises(KeyedViewOutdated, match="was deleted and created again"):
            view.catch_up(30)
        with pytest.raises(KeyedViewOutdated):
            view.get(b"a")


def test_a_topic_that_is_not_there(siltstone_broker):
    with pytest.raises(siltstone_errors(), match="no-such-topic"), view_of(siltstone_broker, "no-such-topic"):
        pass


def siltstone_errors() -> type[Exception]:
    from siltstone.model.errors import SiltstoneError

    return SiltstoneError


def test_the_table_at_a_terminal(siltstone_broker, siltstone_topic, writer):
    writer.put(planes=b"N1", cities=b"JFK", gone=b"x")
    writer.put(gone=None, planes=b"N2")
    at = ("--bootstrap", siltstone_broker.bootstrap_servers)
    shown = run("table", siltstone_topic, *at)
    assert shown.status == 0, shown
    assert "planes" in shown.out and "N2" in shown.out and "gone" not in shown.out and "N1" not in shown.out
    told = msgspec.json.decode(run("table", siltstone_topic, "--json", *at).out)
    assert told["keys"] == 2
    assert [(row["key"], row["value"]) for row in told["rows"]] == [("cities", "JFK"), ("planes", "N2")]
    one = run("table", siltstone_topic, "--key", "planes", "--json", *at)
    assert [row["offset"] for row in msgspec.json.decode(one.out)["rows"]] == [4]
    missing = run("table", siltstone_topic, "--key", "gone", *at)
    assert missing.status == 1 and "(not found)" in missing.out
    few = run("table", siltstone_topic, "--limit", "1", *at)
    assert "cities" in few.out and "planes" not in few.out and "1 more key" in few.err
