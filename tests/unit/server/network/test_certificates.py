"""When the files of certificates are looked at, and what the log says before one expires."""

import asyncio
import logging
from pathlib import Path

import pytest

from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.network.certificates import LOOK_INTERVAL_MS, Certificates, watched_certificates
from siltstone.server.network.listener_settings import InvalidListenerSetting, ListenerSettings
from support.tls.authority import Authority

DAY_MS = 86_400_000


class ClockNow(ManualClock):
    """Begins at the present, at which the certificates were issued."""

    def __init__(self) -> None:
        super().__init__()
        self.advance_ms(SystemClock().now_ms() - self.now_ms())


def listener(authority: Authority, name: str = "broker", **options: float) -> ListenerSettings:
    pair = authority.issue(name, **options)
    return ListenerSettings(tls_certificate_file=str(pair.certificate), tls_key_file=str(pair.key))


def test_the_files_are_looked_at_each_minute(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario() -> None:
        clock = ClockNow()
        certificates = Certificates({"SSL": listener(authority)}, clock)
        certificates.watch(InlineCalls())
        before = certificates.of("SSL")
        authority.issue("broker")
        for _ in range(3):
            await asyncio.sleep(0)
        clock.advance_ms(LOOK_INTERVAL_MS - 1)
        await asyncio.sleep(0)
        assert certificates.of("SSL") is before
        clock.advance_ms(1)
        for _ in range(9):
            await asyncio.sleep(0)
        assert certificates.of("SSL") is not before
        assert certificates.of("PLAINTEXT") is None
        await certificates.close()

    asyncio.run(scenario())


def test_reading_again_now(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario() -> None:
        async with watched_certificates({"SSL": listener(authority)}, SystemClock()) as certificates:
            authority.issue("broker")
            certificates.reload_soon()
            for _ in range(1_000):
                if certificates.statistics().reloads:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError

    asyncio.run(scenario())


def test_two_readings_at_once_take_new_files_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario() -> None:
        async with watched_certificates({"SSL": listener(authority)}, SystemClock()) as certificates:
            authority.issue("broker")
            await asyncio.gather(certificates.reload(), certificates.reload())
            assert certificates.statistics().reloads == 1

    asyncio.run(scenario())


def test_one_listener_that_cannot_be_read_again_leaves_the_others(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario() -> None:
        settings = {"A": listener(authority, "a"), "B": listener(authority, "b")}
        certificates = Certificates(settings, SystemClock())
        Path(settings["A"].tls_key_file).unlink()
        authority.issue("b")
        await certificates.reload()
        statistics = certificates.statistics()
        assert (statistics.reloads, statistics.reload_failures) == (1, 1)
        assert list(statistics.expires_ms) == ["A", "B"]

    asyncio.run(scenario())


def test_a_certificate_that_expires_soon_is_a_warning_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)

    async def scenario() -> None:
        clock = ClockNow()
        certificates = Certificates({"SSL": listener(authority, days=13.5)}, clock)
        for hours in (1, 22, 2, 24 * 14):
            clock.advance_ms(hours * 3_600_000)
            await certificates.reload()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "the certificate of listener SSL expires in 13 days: put a new one into its files",
        "the certificate of listener SSL expires in 12 days: put a new one into its files",
        "the certificate of listener SSL has expired: put a new one into its files",
    ]


def test_tl17_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidListenerSetting, match="expired"):
        Certificates({"SSL": listener(Authority(tmp_path), days=-1)}, SystemClock())
