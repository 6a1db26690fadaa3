from types import SimpleNamespace

import pytest

from siltstone.cli import output
from siltstone.cli.tail import command as module
from siltstone.cli.tail import record_options
from siltstone.cli.tail.sink import ReaderGone
from siltstone.kafka_client.following import Following
from siltstone.model.errors import SiltstoneError
from support.broker.in_process import InProcessBroker
from support.processes.cli import Outcome, assert_one_line

NOON_MS = 1_372_680_000_000  # 2013-07-01 12:00 UTC


@pytest.fixture
def filled(broker: InProcessBroker) -> InProcessBroker:
    """Topic t: record n, of the time n seconds after noon, lies in partition n % 3."""
    broker.siltstone("topics", "create", "t", "--partitions", 3)
    lines = (
        b'{"key": "k%d", "value": "%d", "timestamp": %d, "partition": %d, "headers": {"h": "x"}}\n'
        % (n, n, NOON_MS + 1000 * n, n % 3)
        for n in range(30)
    )
    broker.siltstone("produce", "t", "--format", "json", stdin=b"".join(lines))
    return broker


def values(outcome: Outcome) -> list[int]:
    assert (outcome.status, outcome.err) == (0, ""), outcome
    return [int(value) for value in outcome.out.splitlines()]


def test_the_last_records_of_all_partitions_come_in_the_order_of_their_times(filled: InProcessBroker) -> None:
    def last(*words: object) -> list[int]:
        return values(filled.siltstone("tail", "t", "--until-end", *words))

    assert last() == list(range(20, 30))
    assert last("-n", 4) == [26, 27, 28, 29]
    assert last("-n", 100) == list(range(30))
    assert last("-n", 0) == []
    assert last("-n", 2, "--partition", 1) == [25, 28]
    assert last("-n", 3, "--partition", 1, "--partition", 0) == [25, 27, 28]


def test_tail_begins_where_it_is_told(filled: InProcessBroker) -> None:
    def since(*words: object) -> list[int]:
        return sorted(values(filled.siltstone("tail", "t", "--until-end", "--from", *words)))

    assert since("earliest") == list(range(30))
    assert since("latest") == []
    assert since(8) == list(range(24, 30))
    assert since("2013-07-01T12:00:27") == [27, 28, 29]
    assert since("earliest", "--partition", 2, "--limit", 4) == [2, 5, 8, 11]


def test_without_until_end_the_limit_ends_it(filled: InProcessBroker) -> None:
    for limit in (1, 5, 10):
        assert values(filled.siltstone("tail", "t", "--limit", limit)) == list(range(20, 20 + limit))


def test_columns_are_shown_on_request(filled: InProcessBroker) -> None:
    lines = {
        (): "29",
        ("--timestamps",): "2013-07-01 12:00:29.000\t29",
        ("--offsets",): "2:9\t29",
        ("--key",): "k29\t29",
        ("--headers",): "h=x\t29",
        ("--all",): "2013-07-01 12:00:29.000\t2:9\tk29\th=x\t29",
        ("--format", "raw", "--all"): "29",
    }
    for words, line in lines.items():
        assert filled.siltstone("tail", "t", "--until-end", "-n", 1, *words).out == f"{line}\n"


def test_records_as_json(filled: InProcessBroker) -> None:
    for words in (("--json",), ("--format", "json"), ("--json", "--format", "raw")):
        record = filled.siltstone("tail", "t", "--until-end", "-n", 1, *words).json
        assert (record["topic"], record["partition"], record["offset"], record["key"]) == ("t", 2, 9, "k29")


def test_what_is_asked_wrongly_is_refused(filled: InProcessBroker) -> None:
    both = filled.siltstone("tail", "t", "--from", "0", "-n", "0")
    assert_one_line(both, 2, "--last and --from exclude each other")
    assert_one_line(filled.siltstone("tail", "t", "--from", "soon"), 2, "--from 'soon'")
    assert_one_line(filled.siltstone("tail", "t", "--partition", 3), 2, "topic t has no partition 3")
    assert_one_line(filled.siltstone("tail", "u"), 2, "there is no topic u")


def test_only_records_that_match_are_shown_and_counted(filled: InProcessBroker) -> None:
    def last(*words: object) -> list[int]:
        return values(filled.siltstone("tail", "t", "--until-end", *words))

    assert last("--grep", "k1") == list(range(10, 20))
    assert last("--grep", "k1", "-n", 11) == [1, *range(10, 20)]
    assert last("--grep", "k2", "-n", 2) == [28, 29]
    assert last("--where", "key = 'k3' or value::int % 10 = 4", "-n", 3) == [4, 14, 24]
    assert last("--where", "kafka.partition = 2 and kafka.offset > 6", "--grep", "9") == [29]
    assert last("--where", "carrier = 'UA'") == []
    assert sorted(last("--from", "earliest", "--where", "value < '11'")) == [0, 1, 10]
    assert len(last("--from", "earliest", "--grep", "k1", "-c", 3)) == 3


def test_the_last_that_match_are_looked_for_among_so_many(
    filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_AT_MAX", 20)
    shown = filled.siltstone("tail", "t", "--until-end", "--grep", "k1", "-n", 11)
    assert (shown.status, shown.out.splitlines()) == (0, [str(number) for number in range(10, 20)])
    assert "only the last 20 records were looked at: --from earliest looks at all" in shown.err


def test_a_wrong_expression_ends_it_before_a_broker_is_asked(filled: InProcessBroker) -> None:
    for words in (("tail", "nosuch"), ("consume", "nosuch", "-g", "g")):
        assert_one_line(
            filled.siltstone(*words, "--where", "carrier = "), 2, "--where carrier = : syntax error"
        )


def test_json_objects_are_unfolded_at_a_terminal_only(
    filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    flight = b'{"carrier":"UA","stops":[]}'
    filled.siltstone("produce", "t", "--json-lines", stdin=flight)

    at = filled.siltstone("tail", "t", "--until-end", "--grep", "UA", "--offsets").out.split("\t")[0]
    one_line = f"{at}\t{flight.decode()}\n"

    def printed(*words: object) -> str:
        return filled.siltstone("tail", "t", "--until-end", "--grep", "UA", "--offsets", *words).out

    assert printed() == one_line
    monkeypatch.setattr(record_options, "sys", SimpleNamespace(stdout=Terminal(True)))
    assert printed() == f'{at}\n{{\n  "carrier": "UA",\n  "stops": []\n}}\n'
    assert printed("--compact") == one_line
    assert printed("-f", "raw") == f"{flight.decode()}\n"
    assert len(printed("--json").splitlines()) == 1


def follow_to(failure: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every topic has three records, and then reading fails."""
    real = Following.records

    def records(self, positions, until=None):
        yield from real(self, positions, dict.fromkeys(positions, 1))
        raise failure

    monkeypatch.setattr(Following, "records", records)


def test_records_before_a_failure_are_shown(filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    follow_to(SiltstoneError("the bucket is gone"), monkeypatch)
    failed = filled.siltstone("tail", "t", "--from", "earliest")
    assert (failed.status, sorted(failed.out.splitlines())) == (1, ["0", "1", "2"])
    assert failed.err == "siltstone: the bucket is gone\n"


def test_a_pause_shows_what_came_before_it(filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it waits: nothing is written after that."""
    follow_to(KeyboardInterrupt(), monkeypatch)
    stopped = filled.siltstone("tail", "t", "--from", "earliest")
    assert (stopped.status, sorted(stopped.out.splitlines()), stopped.err) == (130, ["0", "1", "2"], "")


def test_a_reader_that_has_gone_ends_it_in_silence(
    filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_to(ReaderGone(), monkeypatch)
    stopped = filled.siltstone("tail", "t", "--from", "earliest")
    assert (stopped.status, stopped.err) == (0, "")


class Terminal:
    def __init__(self, is_one: bool) -> None:
        self.isatty = lambda: is_one


@pytest.mark.parametrize(
    ("is_terminal", "environment", "in_colour"),
    [
        (True, {}, True),
        (True, {"TERM": "xterm"}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, environment: dict[str, str], in_colour: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(record_options.sys, "stdout", Terminal(is_terminal))
    assert record_options._in_colour() is in_colour


def test_a_terminal_is_told_that_the_command_waits(
    filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinted = []
    monkeypatch.setattr(module, "_hint", lambda settings: hinted.append(settings.topic))
    filled.siltstone("tail", "t", "--limit", 1)
    filled.siltstone("tail", "t", "--from", "latest", "--until-end")
    assert hinted == []
    filled.siltstone("tail", "t", "--from", "earliest", "--limit", 1)
    assert hinted == ["t"]


@pytest.mark.parametrize(
    ("out", "err", "is_told"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_hint_is_for_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, out: bool, err: bool, is_told: bool
) -> None:
    told = []

    class Remarks:
        def print(self, text: str, **_: object) -> None:
            told.append(text)

    monkeypatch.setattr(output, "remarks", Remarks)
    monkeypatch.setattr(output.sys, "stdout", Terminal(out))
    monkeypatch.setattr(output.sys, "stderr", Terminal(err))
    module._hint(
        module.TailSettings(topic="t", numbers=(), position=None, last=1, until_end=False, limit=None)
    )
    assert told == (["Waiting for records of t; Ctrl-C stops."] if is_told else [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("empty",), "empty has no records."),
        (
            ("t", "--from", "999999999"),
            "t ends at 10: no record is at or after the position that was given.",
        ),
        (("t", "--from", "earliest", "--grep", "no such text"), "No record of t matches."),
        (("t", "-n", "1"), None),
        (("t", "-n", "0"), None),
    ],
)
def test_an_end_without_a_record_is_explained_at_a_terminal(
    filled: InProcessBroker, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str | None
) -> None:
    filled.siltstone("topics", "create", "empty")
    said: list[str] = []
    monkeypatch.setattr(module, "remark_at_a_terminal", said.append)
    outcome = filled.siltstone("tail", *words, "--until-end")
    assert outcome.status == 0, outcome
    assert said == ([] if told is None else [told])


def test_notes_of_the_client_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    module._remark("partition 0: [bold] records " + "x" * 200)
    assert capsys.readouterr().err == "partition 0: [bold] records " + "x" * 200 + "\n"


def test_all_columns_are_those_that_each_option_shows(filled: InProcessBroker) -> None:
    def shown(*words: str) -> str:
        outcome = filled.siltstone("tail", "t", "--until-end", "-n", 1, *words)
        assert outcome.status == 0, outcome
        return outcome.out

    assert shown("--all") == shown("--timestamps", "--offsets", "--key", "--headers")
    assert shown("--all") == "2013-07-01 12:00:29.000\t2:9\tk29\th=x\t29\n"
