"""The gate of the console, page by page of a table of its own."""

import asyncio

import pytest
from starlette.responses import Response

from siltstone.console.application import (
    HEADERS,
    Asked,
    ChangeRight,
    Console,
    PageRefused,
    PageRoute,
    number_of,
    time_ms_of,
)
from siltstone.console.pages import PAGES
from siltstone.console.visitors import UnknownVisitor, Visitor, VisitorSession
from siltstone.console.watchers import WATCHER, Watchers
from siltstone.metadata.image import MetadataImage
from siltstone.model.console_limits import CONSOLE_WATCHERS_MAX
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.console.asking import Answer, ask
from support.scenarios import in_loop


class PlainStore:
    place = "--store x"
    trouble = ""
    image = MetadataImage()

    def __init__(self) -> None:
        self.watchers = Watchers(ManualClock(), seeded_randomness(1))

    def now_ms(self) -> int:
        return 0


class GateWorld:
    def __init__(self) -> None:
        self.visitor: Visitor | UnknownVisitor | VisitorSession = Visitor(
            "ada", "form-token", may_change=True
        )
        self.shown: list[dict[str, str]] = []
        self.failure: Exception | None = None
        pages = (
            PageRoute("/plain", self.show),
            PageRoute("/cluster", self.show, of_cluster=True),
            PageRoute("/change", self.show, ChangeRight.CLUSTER),
            PageRoute("/change-topic", self.show, ChangeRight.CONFIGS),
            PageRoute("/part", self.show, is_followed=True),
        )
        self.console = Console(PlainStore(), self, pages, {"127.0.0.1", "localhost"}.__contains__)  # type: ignore[arg-type]

    async def visitor_of(self, request: object) -> Visitor | UnknownVisitor | VisitorSession:
        return self.visitor

    async def show(self, asked: Asked) -> Response:
        self.shown.append(dict(asked.form))
        if self.failure is not None:
            raise self.failure
        return Response("shown")

    async def ask(self, path: str, **more: object) -> Answer:
        return await ask(self.console.application, path, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    ["//plain", "/plain/", "/plain/x", "/%2e/plain", "/../plain", "/PLAIN", "/static/../x", "/static/x"],
)
@in_loop
async def test_wc03_a_path_that_is_not_in_the_table_is_not_there(path: str):
    world = GateWorld()
    world.visitor = UnknownVisitor("log in")
    assert (await world.ask(path)).status in (307, 401, 404)
    assert world.shown == []


@in_loop
async def test_wc03_nobody_sees_a_page_without_a_login():
    world = GateWorld()
    world.visitor = UnknownVisitor("log in", "Basic realm")
    for path in ("/plain", "/cluster"):
        answer = await world.ask(path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Basic realm")
    assert (await world.ask("/change", form={"token": "form-token"})).status == 401
    assert world.shown == []


@in_loop
async def test_wc03_pages_of_the_cluster_need_its_right():
    world = GateWorld()
    world.visitor = Visitor("ada", "t", describes_cluster=False)
    assert (await world.ask("/cluster")).status == 403
    assert (await world.ask("/plain")).status == 200


@pytest.mark.parametrize(
    ("headers", "form", "status"),
    [
        ({}, {"token": "form-token"}, 200),
        ({"origin": "http://127.0.0.1:9650"}, {"token": "form-token"}, 200),
        ({"origin": "http://evil.example"}, {"token": "form-token"}, 403),
        ({"origin": "http://["}, {"token": "form-token"}, 403),
        ({"origin": "null"}, {"token": "form-token"}, 403),
        ({}, {"token": "other"}, 403),
        ({}, {}, 403),
        ({"content-type": "text/plain"}, {"token": "form-token"}, 415),
        ({}, {"token": "form-token", "x": "y" * 70_000}, 413),
    ],
)
@in_loop
async def test_wc06_a_change_comes_from_a_page_of_the_session(headers: dict, form: dict, status: int):
    world = GateWorld()
    assert (await world.ask("/change", headers=headers, form=form)).status == status
    assert len(world.shown) == (status == 200)


@in_loop
async def test_wc06_a_change_is_not_asked_for_by_get_and_not_made_by_those_who_only_read():
    world = GateWorld()
    assert (await world.ask("/change")).status == 405
    world.visitor = Visitor("ada", "form-token")
    answer = await world.ask("/change", form={"token": "form-token"})
    assert answer.status == 403 and "only reads" in answer.text
    world.visitor = Visitor("everybody", "", may_change=True)
    assert (await world.ask("/change", form={"token": ""})).status == 403, "a visitor without a session"
    assert world.shown == []


@pytest.mark.parametrize(
    ("site", "dest", "status"),
    [
        ("same-origin", "empty", 200), ("none", "document", 200), ("cross-site", "document", 200),
        ("cross-site", "image", 403), ("cross-site", "iframe", 403), ("same-site", "script", 403),
        ("same-site", "", 403),
    ],
)  # fmt: skip
@in_loop
async def test_wc06_the_page_of_another_site_or_port_fetches_nothing(site: str, dest: str, status: int):
    """A picture whose address is a query would have it run, with the cookie of the session if the other page is of this
    machine, too: a cookie knows no ports."""
    world = GateWorld()
    headers = {"sec-fetch-site": site, "sec-fetch-dest": dest}
    assert (await world.ask("/plain", headers=headers)).status == status
    assert len(world.shown) == (status == 200)
    changed = await world.ask("/change", headers=headers, form={"token": "form-token"})
    assert changed.status == (200 if site in ("same-origin", "none") else 403)


@in_loop
async def test_wc04_a_link_leads_to_a_page_that_asks_for_the_next_one_itself():
    """After a redirection the browser would not send the cookie, if the page of another site had the link."""
    world = GateWorld()
    world.visitor = VisitorSession("siltstone-console-1", "secret")
    answer = await world.ask("/plain", headers={"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"})
    assert answer.status == 200 and '<meta http-equiv="refresh" content="0; url=/plain">' in answer.text
    assert "secret" in answer.headers["set-cookie"] and "secret" not in answer.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9650", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("evil.example", 421), ("", 421),
        ("127.0.0.1.evil.example", 421), ("[::1", 421),
    ],
)  # fmt: skip
@in_loop
async def test_a_request_names_a_host_of_the_console(host: str, status: int):
    world = GateWorld()
    assert (await world.ask("/plain", headers={"host": host})).status == status


@in_loop
async def test_wc07_every_answer_has_the_headers():
    world = GateWorld()
    answers = [await world.ask(path) for path in ("/plain", "/nowhere", "/change", "/static/nothing")]
    world.failure = ValueError("a bug")
    answers.append(await world.ask("/plain"))
    world.visitor = UnknownVisitor("log in")
    answers.append(await world.ask("/plain"))
    for answer in answers:
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS
    kept = await world.ask("/static/console.css")
    assert kept.status == 200 and kept.headers["cache-control"] == "max-age=3600"


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        (PageRefused(404, "there is no topic x"), 404, "there is no topic x"),
        (InvalidRequest("write a number"), 400, "write a number"),
        (Unavailable("the bucket is away"), 503, "the bucket is away"),
        (TimeoutError(), 503, "ask for less"),
        (ValueError("secret"), 500, "the log of the console says why"),
    ],
)
@in_loop
async def test_a_failure_is_a_page_that_says_what_to_do(failure: Exception, status: int, text: str):
    world = GateWorld()
    world.failure = failure
    answer = await world.ask("/plain")
    assert (answer.status, text in answer.text) == (status, True) and "secret" not in answer.text
    part = await world.ask("/plain", headers={"hx-request": "true"})
    assert part.status == status and text in part.text and "<html" not in part.text


@in_loop
async def test_wc05_a_refusal_is_escaped():
    world = GateWorld()
    world.failure = PageRefused(404, "there is no topic <script>alert(1)</script>")
    assert "<script>alert" not in (await world.ask("/plain")).text


@in_loop
async def test_wc03_a_change_of_the_cluster_needs_its_right_and_another_change_its_own():
    world = GateWorld()
    world.visitor = Visitor("ada", "form-token", may_change=True, alters_cluster=False)
    answer = await world.ask("/change", form={"token": "form-token"})
    assert (answer.status, world.shown) == (403, []) and "ada may not alter the cluster" in answer.text
    assert (await world.ask("/change-topic", form={"token": "form-token"})).status == 200


def test_wc03_every_page_that_changes_something_names_its_right_and_those_of_the_cluster_are_seen_with_it():
    changes = [each for each in PAGES if each.is_change]
    assert {each.change for each in changes} == set(ChangeRight)
    assert all(each.of_cluster for each in changes if each.change is ChangeRight.CLUSTER)
    assert len({each.path for each in PAGES}) == len(PAGES)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("9" * 5_000, None), ("²", None),
     ("٣", None), ("-1", None), ("1e9", None), ("", None)],
)  # fmt: skip
def test_a_number_is_of_64_bits_and_in_digits_that_python_counts_with(text: str, number: int | None):
    assert number_of(text) == number


def test_a_time_is_in_utc_unless_it_names_a_zone():
    assert time_ms_of("1970-01-01T06:00") == time_ms_of("1970-01-01T08:00+02:00") == 6 * 3_600_000
    assert time_ms_of("9999-12-31T23:59:59.999999") == 253_402_300_799_999, "it is no time of the year 10,000"
    for bad in ("", "x", "0001-01-01T00:00:00+99:00", "3000000-01-01"):
        with pytest.raises(PageRefused, match="is no time"):
            time_ms_of(bad)


@in_loop
async def test_wc13_a_part_is_loaded_again_by_so_many_pages_and_others_keep_what_they_show():
    world = GateWorld()
    for number in range(CONSOLE_WATCHERS_MAX):
        assert (await world.ask("/part", headers={WATCHER: f"page {number}"})).status == 200
    refused = await world.ask("/part", headers={WATCHER: "one more", "hx-request": "true"})
    assert refused.status == 503 and "20 other pages follow this store" in refused.text
    assert (refused.headers["hx-retarget"], refused.headers["hx-reswap"]) == ("#note", "innerHTML")
    assert (await world.ask("/part")).status == 503, "a load without a name counts as a page, too"
    assert (await world.ask("/part", headers={WATCHER: "page 0"})).status == 200
    assert "hx-retarget" not in (await world.ask("/plain/nowhere")).headers
    world.visitor = UnknownVisitor("log in")
    assert (await world.ask("/part", headers={WATCHER: "a stranger"})).status == 401
    assert len(world.console.store.watchers) == CONSOLE_WATCHERS_MAX


@in_loop
async def test_wc13_the_end_of_the_console_gives_up_pages_that_are_made():
    world, has_begun = GateWorld(), asyncio.Event()

    async def for_ever(asked: Asked) -> Response:
        has_begun.set()
        return await asyncio.Future()

    console = Console(world.console.store, world, (PageRoute("/slow", for_ever),), {"127.0.0.1"}.__contains__)
    made = asyncio.ensure_future(ask(console.application, "/slow"))
    await has_begun.wait()
    console.close()
    async with asyncio.timeout(30):
        assert (await made).status == 503
        assert "the console ends" in (await ask(console.application, "/slow")).text
