"""The console on a real store, beside its broker: every page, messages, and what a spiteful client wrote."""

import csv
import html
import io
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout

import click
import msgspec
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.cli.main import cli
from siltstone.console.messages import MessagesWanted, RecordsTooLarge, find_messages
from siltstone.console.pages import PAGES
from siltstone.console.store import ConsoleLimits
from siltstone.console.visitors import Visitor
from support.console.of_store import ConsoleOfAStore
from support.kafka.quiet_client import QUIET
from support.processes.cli import run

pytestmark = pytest.mark.xdist_group("console")  # the tests share a broker

SPITE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("console") / "store") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **QUIET})
        for future in admin.create_topics(
            [NewTopic("orders", 3), NewTopic("spite", 1), NewTopic("empty", 1)]
        ).values():
            future.result(60)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, **QUIET})
        for number in range(300):
            value = json.dumps({"n": number, "carrier": "AA" if number % 3 else "UA"})
            producer.produce(
                "orders", value, f"k{number}", partition=number % 3, timestamp=1_000_000 + number
            )
        producer.produce("spite", SPITE, SPITE, headers=[(SPITE, SPITE.encode()), ("none", None)])
        producer.produce("spite", b"\xff\x00\xfe", b"\x00\x01")
        producer.produce("spite", None, "deleted")
        producer.produce("spite", b"x" * 900_000, "large")
        assert producer.flush(60) == 0
        yield running


@pytest.fixture
def console(broker: siltstone.Broker) -> ConsoleOfAStore:
    return ConsoleOfAStore(broker.folder)


def test_every_page_is_shown(console: ConsoleOfAStore) -> None:
    for page in PAGES:
        if page.is_change or page.path.startswith(
            ("/objects/{object}", "/tables/{topic}", "/groups/{group:path}")
        ):
            continue
        path = page.path.format(topic="orders", partition="1")
        query = "?q=select+count(*)+from+orders" if path.startswith("/sql") else ""
        answer = console.ask(path + query)
        assert answer.status == 200, path


def test_the_newest_messages_come_first_and_older_ones_page_by_page(console: ConsoleOfAStore) -> None:
    path, seen = "/topics/orders/messages?count=50", []
    while path:
        text = console.ask(path).text
        seen += [int(line.split("</span>")[0]) for line in text.split('<span class="k">k')[1:]]
        older = text.partition('<a rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
        path = older if "Older" in text else ""
    assert seen == list(range(299, -1, -1))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("key=k7", {7}),
        ("text=%22n%22%3A+29", {29, *range(290, 300)}),
        ("where=carrier+%3D+'UA'+and+kafka.offset+%3C+5", {0, 3, 6, 9, 12}),
        ("partition=1&offset=98", {295, 298}),
        ("time=1970-01-01T00:16:40.298", {298, 299}),
        ("where=false", set()),
        ("text=.*%24%7B%7D", set()),
    ],
)
def test_wc11_messages_are_found_by_place_key_text_and_condition(
    console: ConsoleOfAStore, query: str, expected: set[int]
) -> None:
    text = console.ask(f"/topics/orders/messages?count=200&{query}").text
    found = {int(part.split("</span>")[0]) for part in text.split('<span class="k">k')[1:]}
    assert found == expected


def test_a_search_goes_further_back_until_there_is_nothing_more(console: ConsoleOfAStore) -> None:
    console.limits = ConsoleLimits(search_records_max=30)
    path, rounds, text = "/topics/orders/messages?key=k0", 0, ""
    while path and rounds < 20:
        text = console.ask(path).text
        rounds += 1
        path = (
            text.partition('<a rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
            if "Look further" in text
            else ""
        )
    assert rounds == 10 and '<span class="k">k0</span>' in text, "ten offsets of each partition at a time"


@pytest.mark.parametrize(
    "bad",
    [
        "partition=9",
        "partition=x",
        "offset=x",
        "time=x",
        "before=x",
        "start=1:2:3",
        "where=nonsense(",
        "partition=²",
        "offset=²",
        f"offset={'9' * 5_000}",
    ],
)
def test_bad_input_is_refused_with_what_to_write(console: ConsoleOfAStore, bad: str) -> None:
    answer = console.ask(f"/topics/orders/messages?{bad}")
    assert answer.status in (400, 404) and 'role="alert"' in answer.text


def test_wc05_what_a_client_wrote_is_text(console: ConsoleOfAStore) -> None:
    answer = console.ask("/topics/spite/messages")
    assert "<script>alert" not in answer.text and "<img" not in answer.text
    assert answer.text.count("&lt;script&gt;alert(1)") >= 3, "key, value and header"
    assert "ff 00 fe" in answer.text and "tombstone" in answer.text
    assert "the first 64.0 KiB of 878.9 KiB" in answer.text and len(answer.body) < 300_000


def test_a_download_has_the_whole_records(console: ConsoleOfAStore) -> None:
    lines = console.lines("/topics/orders/messages/download?as=jsonl")
    assert sorted(json.loads(each["value"])["n"] for each in lines) == list(range(300))
    table = pq.read_table(io.BytesIO(console.ask("/topics/spite/messages/download?as=parquet").body))
    assert sorted(len(each or b"") for each in table.column("value").to_pylist()) == [
        0,
        3,
        len(SPITE),
        900_000,
    ]
    csv.field_size_limit(1_000_000)
    rows = list(csv.DictReader(io.StringIO(console.ask("/topics/spite/messages/download?as=csv").text)))
    assert [each["value"][:8] for each in rows] == [SPITE[:8], "0xff00fe", "", "xxxxxxxx"]
    answer = console.ask("/topics/spite/messages/download?as=csv")
    assert (
        answer.headers["content-disposition"].startswith("attachment")
        and answer.headers["x-content-type-options"] == "nosniff"
    )
    assert console.ask("/topics/orders/messages/download?as=exe").status == 400


def test_a_download_of_a_filter_has_what_passes_it(console: ConsoleOfAStore) -> None:
    lines = console.lines("/topics/orders/messages/download?as=jsonl&where=n+>+290")
    assert sorted(json.loads(each["value"])["n"] for each in lines) == list(range(291, 300))
    assert [each["key"] for each in console.lines("/topics/orders/messages/download?as=jsonl&key=k7")] == [
        "k7"
    ]
    assert len(console.lines("/topics/orders/messages/download?as=jsonl&text=UA")) == 100
    assert console.lines("/topics/orders/messages/download?as=jsonl&key=none") == []


def test_a_download_has_more_records_than_a_filter_looks_at(console: ConsoleOfAStore) -> None:
    console.limits = ConsoleLimits(search_records_max=30)
    assert len(console.lines("/topics/orders/messages/download?as=jsonl")) == 300


def test_wc17_records_that_decompress_to_much_are_read_few_at_a_time(broker: siltstone.Broker) -> None:
    """Ten records of 300,000 bytes are a few hundred bytes in objects."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd", **QUIET},
    )
    for _ in range(10):
        producer.produce("bombs", bytes(300_000))
    assert producer.flush(60) == 0
    with siltstone.open_store(broker.folder) as store:
        image = store.metadata.refresh()
        topic = image.topics[image.topic_ids["bombs"]]
        wanted = MessagesWanted(partitions=(0,), count=10, decoded_bytes_max=1_000_000)
        found = find_messages(store.context, topic, wanted)
        assert 0 < len(found.messages) <= 3
        assert found.older == {0: found.messages[-1].offset}
        with pytest.raises(RecordsTooLarge, match="choose one partition"):
            find_messages(store.context, topic, msgspec.structs.replace(wanted, decoded_bytes_max=100_000))


def test_wc17_a_message_with_headers_without_end_is_shown_with_the_first_of_them(
    broker: siltstone.Broker, console: ConsoleOfAStore
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for _ in range(3):
        producer.produce("headers", b"v", headers=[("h", b"")] * 1_000)
    assert producer.flush(60) == 0
    text = console.ask("/topics/headers/messages").text
    assert text.count("<dt>h</dt>") == 300 and text.count("and 900 more") == 3
    lines = console.lines("/topics/headers/messages/download?as=jsonl")
    assert [len(each["headers"]) for each in lines] == [1_000] * 3
    with siltstone.open_store(broker.folder) as store:
        image = store.metadata.refresh()
        wanted = MessagesWanted(partitions=(0,), count=3, decoded_bytes_max=300_000)
        found = find_messages(store.context, image.topics[image.topic_ids["headers"]], wanted)
        assert len(found.messages) == 1, "empty headers take memory, too"


def test_a_page_of_a_query_shows_the_beginning_of_a_large_cell(console: ConsoleOfAStore) -> None:
    query = "q=select+repeat('x',2000000)+from+range(20)"
    answer = console.ask(f"/sql/rows?{query}")
    assert answer.text.count("x… (the first 4,096 of 2,000,000)") == 20 and len(answer.body) < 200_000
    assert len(console.ask(f"/sql/download?{query}").body) > 40_000_000


def test_sql_reads_topics_says_what_it_will_read_and_has_a_limit(console: ConsoleOfAStore) -> None:
    query = "select+carrier,+count(*)+from+orders+group+by+1+order+by+1"
    rows = console.ask(f"/sql/rows?q={query}").text
    assert "<td>AA</td><td>200</td>" in rows and "<td>UA</td><td>100</td>" in rows
    assert "<b>orders</b>" in console.ask(f"/sql/plan?q={query}").text
    assert console.ask(f"/sql/download?q={query}").text.splitlines() == [
        "carrier,count_star()",
        "AA,200",
        "UA,100",
    ]
    assert console.ask("/sql/rows?q=drop+table+orders").status == 400
    console.limits = ConsoleLimits(query_bytes_max=-1)
    answer = console.ask(f"/sql/rows?q={query}", headers={"hx-request": "true"})
    assert answer.status == 400 and "siltstone sql" in answer.text


def test_a_query_that_takes_too_long_is_ended(console: ConsoleOfAStore) -> None:
    console.limits = ConsoleLimits(query_seconds_max=0.3)
    answer = console.ask(
        "/sql/rows?q=select+count(*)+from+range(1000000000)+a,+range(1000000000)+b+where+a.range+%3D+b.range%2B1"
    )
    assert answer.status in (400, 503)


def test_wc12_a_visitor_sees_one_topic_only(console: ConsoleOfAStore) -> None:
    console.visitor = Visitor(
        "bob", "t", sees=lambda name: name == "empty", reads=lambda _: False, describes_cluster=False
    )
    for page in PAGES:
        if page.is_change:
            continue
        path = page.path.replace(":path", "").format(topic="orders", partition="0", object="0", group="g")
        answer = console.ask(path + "?q=select+*+from+orders&internal=1&as=csv")
        assert "spite" not in answer.text, path
        if page.of_cluster:
            assert answer.status == 403, path
        if "{topic}" in page.path:
            assert answer.status == 404, path
    assert console.ask("/topics/empty").status == 200
    refused = console.ask("/topics/empty/messages")
    assert refused.status == 403 and "READ" in refused.text
    assert console.ask("/sql/rows?q=select+*+from+empty").status == 403
    for query in ("select+*+from+nosuch", "select+*+from+spit", "select+*+from+query_table('spi'||'te')+--"):
        answer = console.ask(f"/sql/rows?q={query}")
        assert answer.status == 400, query
        assert not re.search("orders|spite", answer.text.replace("topic spite:", "")), (
            "no error names another topic"
        )
    unseen, missing = (console.ask(f"/sql/rows?q=select+*+from+{name}").text for name in ("spite", "nosuc"))
    assert unseen.replace("spite", "nosuc") == missing, "nobody learns that it exists"


def test_the_code_that_is_offered_reads_the_same_records(
    console: ConsoleOfAStore, broker: siltstone.Broker
) -> None:
    text = console.ask("/topics/orders/messages?partition=1&offset=98").text
    code = text.partition("<summary>Python</summary><pre>")[2].partition("</pre>")[0]
    out = io.StringIO()
    with redirect_stdout(out):
        exec(html.unescape(code), {})
    assert "298" in out.getvalue() and "297" not in out.getvalue()
    command = text.partition("<summary>SQL</summary><pre>")[2].partition("</pre>")[0]
    done = run("sql", "--store", str(broker.folder), 'select * from "orders" limit 25')
    assert done.status == 0 and "siltstone sql --store" in html.unescape(command)


def parsed(command: str) -> None:
    """Raises when the command line is none of the program's."""
    name, *words = shlex.split(command)
    assert name == "siltstone"
    found: click.Command = cli
    names = [
        "-h",
        "--help",
    ]  # a command keeps the help option of its first context, for all tests of this process
    context = click.Context(cli, info_name="siltstone", help_option_names=names)
    while isinstance(found, click.Group):
        if not words or words[0].startswith("-"):  # the group lists something by itself
            break
        _, resolved, words = found.resolve_command(context, words)
        assert resolved is not None, command
        found, context = resolved, click.Context(resolved, parent=context, help_option_names=names)
    parser = found.make_parser(context)
    parser.parse_args(list(words))


def test_every_command_that_a_page_shows_is_one(console: ConsoleOfAStore, broker: siltstone.Broker) -> None:
    commands = set()
    paths = [
        page.path.replace(":path", "").format(topic="orders", partition="0", object="0", group="g")
        for page in PAGES
        if not page.is_change
    ]
    for path in [
        *paths,
        "/topics/orders/messages?partition=1&offset=3",
        "/maintenance/plan?force=1&kind=sweep",
    ]:
        text = console.ask(path).text
        commands |= {html.unescape(each) for each in re.findall(r'data-copy="(siltstone [^"]+)"', text)}
    for problem in (
        "siltstone serve --node-id 3", "siltstone tables explain a", "siltstone tables show a --errors",
        "siltstone tables replay a --dead-letters --dry-run",
        "siltstone maintain status", "siltstone maintain cancel 3", "siltstone maintain run",
    ):  # fmt: skip
        commands.add(f"{problem} --store {broker.folder}")
    assert len(commands) > 12
    for command in commands:
        parsed(command)


def test_maintenance_is_planned_run_and_cancelled(console: ConsoleOfAStore) -> None:
    answer = console.ask("/maintenance/run", form={"token": "form-token", "kind": "sweep"})
    assert (answer.status, answer.headers["location"]) == (303, "/maintenance")
    assert console.ask("/maintenance/run", form={"token": "form-token", "kind": "nonsense"}).status == 400
    assert console.ask("/maintenance/run", form={"token": "form-token"}).status == 400
    assert console.ask("/maintenance/cancel", form={"token": "form-token", "job": "77"}).status == 404
    console.visitor = Visitor("bob", "form-token")
    assert console.ask("/maintenance/run", form={"token": "form-token", "kind": "sweep"}).status == 403


def test_pages_say_when_retention_deletes_and_when_maintenance_runs(
    console: ConsoleOfAStore, broker: siltstone.Broker
) -> None:
    """The records are of 1970: they are due as soon as the broker, or two minutes, have closed their segments."""
    broker.flush()
    day = r"(with its next run|on \d{4}-\d\d-\d\d)"
    assert re.search(
        rf"Retention deletes {day}: 300 offsets, [\d.]+ KiB\.", console.ask("/topics/orders").text
    )
    text = console.ask("/topics/empty").text
    assert "Retention deletes nothing by time: it has no records in objects" in text
    text = console.ask("/objects/retention").text
    assert re.search(rf"Retention deletes {day}: \d+ offsets", text) and 'href="/topics/orders"' in text
    console.visitor = Visitor("bob", "t", sees=lambda name: name == "empty")
    assert "Time makes retention delete nothing" in console.ask("/objects/retention").text
    console.visitor = Visitor("ada", "form-token", may_change=True)
    text = console.ask("/maintenance").text
    assert "<td>not known</td>" in text and "no service repeats" in text
    status = run("maintain", "status", "--store", str(console.folder))
    assert re.search(rf"Retention deletes {day}: \d+ offsets of \d topics?", status.words)


def test_costs_are_shown_with_what_is_assumed_and_what_a_retention_would_save(
    console: ConsoleOfAStore,
) -> None:
    text = console.ask("/cost?retention=1d").text
    assert "too young to say (counted for" in text and "All topics" not in text
    assert "Storage and brokers" in text and "a month has 30 days" in text
    assert "No topic would become smaller" in text or "A month less" in text
    assert "siltstone cost --store" in text and "--retention 1d" in text
    assert console.ask("/cost?retention=soon").status == 400
    found = run("cost", "--json", "--store", str(console.folder)).json
    assert found["total"] is None and {each["requests"] for each in found["topics"]} == {None}
    assert found["counted_seconds"] == found["window_ms"] // 1000
    assert all(each["storage"] > 0 for each in found["topics"] if each["stored_bytes"])


def test_wc09_a_plan_writes_nothing(console: ConsoleOfAStore, broker: siltstone.Broker) -> None:
    def version() -> int:
        with siltstone.open_store(broker.folder) as store:
            return store.metadata.refresh().version

    before = version()
    for path in ("/maintenance", "/maintenance/plan?force=1", "/topics/orders/messages", "/objects", "/"):
        assert console.ask(path).status == 200
    assert version() == before


def test_a_group_that_has_not_committed_everywhere_has_at_least_so_much_left(
    console: ConsoleOfAStore, broker: siltstone.Broker
) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "some", **QUIET})
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    broker.flush()
    assert '<td class="n">≥ 96</td>' in console.ask("/groups").text
    assert '<td class="n">≥ 96</td>' in console.ask("/topics/orders/groups").text
    text = console.ask("/groups/some").text
    assert "≥ 96" in text and "has more left to read: orders-1, orders-2." in text
    places = [TopicPartition("orders", number, 4) for number in range(3)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    broker.flush()
    assert "≥" not in console.ask("/groups").text and '<td class="n">288</td>' in console.ask("/groups").text
