import pytest
from starlette.requests import Request

from siltstone.console.visitors import TokenAccess, UnknownVisitor, Visitor, VisitorSession
from siltstone.model.console_limits import CONSOLE_IDLE_MS, CONSOLE_SESSION_MS, CONSOLE_SESSIONS_MAX
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.scenarios import in_loop


class AccessWorld:
    def __init__(self, *, may_change: bool = False) -> None:
        self.clock = ManualClock()
        self.access = TokenAccess(self.clock, seeded_randomness(1), port=9650, may_change=may_change)

    async def ask(self, *, token: str = "", cookie: str = "") -> Visitor | UnknownVisitor | VisitorSession:
        headers = [(b"cookie", f"siltstone-console-9650={cookie}".encode())] if cookie else []
        scope = {
            "type": "http",
            "headers": headers,
            "query_string": f"token={token}".encode(),
            "path": "/",
            "method": "GET",
        }
        return await self.access.visitor_of(Request(scope))

    async def let_in(self) -> str:
        welcome = await self.ask(token=self.access.token)
        assert isinstance(welcome, VisitorSession)
        return welcome.value


@in_loop
async def test_wc04_the_link_lets_one_browser_in():
    world = AccessWorld()
    cookie = await world.let_in()
    visitor = await world.ask(cookie=cookie)
    assert isinstance(visitor, Visitor) and not visitor.may_change and visitor.token
    again = await world.ask(token=world.access.token)
    assert isinstance(again, UnknownVisitor) and "used already" in again.reason


@pytest.mark.parametrize("token", ["", "0" * 32, "é"])
@in_loop
async def test_wc04_nobody_else_is_let_in(token: str):
    world = AccessWorld()
    assert isinstance(await world.ask(token=token), UnknownVisitor)
    assert isinstance(await world.ask(cookie="0" * 64), UnknownVisitor)
    assert isinstance(await world.let_in(), str), "a wrong token uses nothing up"


@pytest.mark.parametrize(("step_ms", "steps"), [(CONSOLE_IDLE_MS, 1), (CONSOLE_IDLE_MS - 1, 17)])
@in_loop
async def test_wc04_a_session_ends_without_requests_and_at_the_end_of_the_day(step_ms: int, steps: int):
    world = AccessWorld()
    cookie = await world.let_in()
    seen = []
    for _ in range(steps):
        world.clock.advance_ms(step_ms)
        seen.append(isinstance(await world.ask(cookie=cookie), Visitor))
    assert seen == [True] * (steps - 1) + [False]
    assert steps == 1 or (steps - 1) * step_ms < CONSOLE_SESSION_MS <= steps * step_ms


@in_loop
async def test_sessions_are_bounded():
    world = AccessWorld()
    cookie = await world.let_in()
    for _ in range(CONSOLE_SESSIONS_MAX):
        world.access._begin(0.0)
    assert len(world.access._sessions) == CONSOLE_SESSIONS_MAX
    assert isinstance(await world.ask(cookie=cookie), UnknownVisitor), "the oldest session made room"


@in_loop
async def test_changes_are_for_those_who_started_the_console_with_them():
    world = AccessWorld(may_change=True)
    visitor = await world.ask(cookie=await world.let_in())
    assert isinstance(visitor, Visitor) and visitor.may_change


def test_rights_count_only_for_a_visitor_who_may_change_something():
    reads = Visitor("ada", "t")
    assert not (reads.changes_cluster or reads.changes_configs("t") or reads.resets("g", "t"))
    may = Visitor(
        "ada", "t", may_change=True, alters_cluster=False,
        alters_configs="t".__eq__, commits="g".__eq__, reads="t".__eq__,
    )  # fmt: skip
    assert not may.changes_cluster
    assert [may.changes_configs(each) for each in ("t", "u")] == [True, False]
    assert [may.resets(*each) for each in (("g", "t"), ("h", "t"), ("g", "u"))] == [True, False, False]
