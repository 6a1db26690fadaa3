"""Changes by button in a real browser: what a person clicks and types, and what is shown then."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import siltstone
from support.console.browser import axe_script, browser, violations
from support.kafka.quiet_client import QUIET

pytestmark = pytest.mark.xdist_group("console-browser")

SECONDS_MAX = 30
TABLE = {
    "siltstone.table.format": "iceberg",
    "siltstone.table.value": "json",
    "siltstone.table.columns": "id long",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("changes") / "store") as running:
        config = {"bootstrap.servers": running.bootstrap_servers, **QUIET}
        producer = Producer(config)
        for number in range(20):
            producer.produce("orders", str(number), partition=0)
        assert producer.flush(60) == 0
        consumer = Consumer({**config, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 12)], asynchronous=False)
        consumer.close()
        running.create_topic("flights", partitions=1, config=TABLE)
        producer.produce("flights", '{"id": 1}', partition=0)
        producer.produce("flights", "no JSON", partition=0)
        assert producer.flush(60) == 0
        running.flush()
        with siltstone.open_store(running.folder) as store:
            assert siltstone.maintenance.plan(store, kinds=["table-export"]).run().is_well
        yield running


@pytest.fixture
def link(broker: siltstone.Broker) -> Iterator[str]:
    """``siltstone console --changes`` beside the broker."""
    command = [
        sys.executable,
        "-m",
        "siltstone",
        "console",
        "--store",
        str(broker.folder),
        "--port",
        "0",
        "--changes",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        match = re.search(r"(http://\S+/\?token=\w+)", process.stdout.readline())
        assert match is not None
        yield match[1]
        process.terminate()
        process.wait(30)


def committed(broker: siltstone.Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **QUIET, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=60)
    consumer.close()
    return int(found.offset)


def text_of(driver: Any, wanted: str) -> str:
    """Waits until the page has the text, and returns what it has."""
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

    until = time.monotonic() + SECONDS_MAX
    text = ""
    while wanted not in text and time.monotonic() < until:
        # The page that was there has gone meanwhile, or the one that leads to it is still shown.
        with suppress(NoSuchElementException, StaleElementReferenceException):
            text = driver.find_element("tag name", "main").text
        time.sleep(0.05)
    assert wanted in text, text
    return str(text)


def test_wc10_a_group_is_reset_after_its_preview_and_its_name(broker: siltstone.Broker, link: str) -> None:
    with browser() as driver:
        driver.get(link)
        driver.get(link.partition("/?")[0] + "/groups/readers?topic=orders&to=offset&at=5")
        text_of(driver, "7 records would be read again, and 0 would be skipped")
        button = driver.find_element("css selector", "form[action='/groups/reset'] button")
        button.click()
        assert committed(broker) == 12, "the browser wants the name"
        driver.find_element("css selector", "input[name='name']").send_keys("readers")
        assert violations(driver, axe_script()) == []
        button.click()
        text_of(driver, "The group was reset.")
        assert committed(broker) == 5


def test_wc04_a_link_in_the_page_of_another_site_lets_the_browser_in(link: str, tmp_path: Path) -> None:
    """A file, as --open makes one; a terminal in a browser is another."""
    page = tmp_path / "page.html"
    page.write_text(f'<meta http-equiv="refresh" content="0; url={link}">')
    with browser() as driver:
        driver.get(page.as_uri())
        text_of(driver, "Records")
        assert driver.current_url == link.partition("?")[0]


def test_a_configuration_is_typed_refused_at_its_field_mended_and_set(
    broker: siltstone.Broker, link: str
) -> None:
    with browser() as driver:
        driver.get(link)
        driver.get(link.partition("/?")[0] + "/topics/orders/configs")

        def typed(name: str, value: str) -> None:
            field = driver.find_element("name", f"value.{name}")
            field.clear()
            field.send_keys(value)

        typed("retention.ms", "3d")
        typed("segment.bytes", "banana")
        driver.find_element("css selector", "main form button").click()
        text_of(driver, "a value was refused")
        marked = driver.find_element("css selector", "[aria-invalid]")
        assert marked.get_attribute("name") == "value.segment.bytes"
        assert driver.find_element("name", "value.retention.ms").get_attribute("value") == "3d"
        assert violations(driver, axe_script()) == []
        typed("segment.bytes", "64MiB")
        driver.find_element("css selector", "main form button").click()
        text_of(driver, "The configuration was changed.")
        found = {
            name: driver.find_element("name", f"value.{name}").get_attribute("value")
            for name in ("retention.ms", "segment.bytes")
        }
        assert found == {"retention.ms": "259200000", "segment.bytes": "67108864"}


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_on_pages_with_buttons(link: str, is_dark: bool) -> None:
    found = {}
    with browser(width=380, height=800, is_dark=is_dark) as driver:
        driver.get(link)
        for path in (
            "/topics/orders/configs", "/topics/orders/partitions/0", "/cluster", "/cluster/balance", "/maintenance",
            "/groups/readers?topic=orders&to=earliest", "/tables", "/tables/flights", "/tables/flights/dead-letters",
        ):  # fmt: skip
            driver.get(link.partition("/?")[0] + path)
            if wrong := violations(driver, axe_script()) if path != "/cluster/balance" else []:
                found[path] = wrong
            if driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth") > 0:
                found[f"{path} (width)"] = ["too wide"]
    assert found == {}
