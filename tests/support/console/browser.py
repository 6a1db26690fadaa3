"""A real browser: Debian's Chromium without a window, driven by selenium; and axe, which checks pages for people who
hear them or use the keyboard alone."""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

AXE = "axe-core@4.14.1"
BUILD = Path(__file__).parents[3] / ".build"


@contextmanager
def browser(width: int = 1280, height: int = 900, *, is_dark: bool = False) -> Iterator[Any]:
    """Yields a selenium driver. Skips the test where there is no Chromium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium: apt install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    scheme = (
        "--blink-settings=preferredColorScheme=0" if is_dark else "--blink-settings=preferredColorScheme=1"
    )
    for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", scheme):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        # A window has a least width, and a device that is pretended has none.
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        found.set_page_load_timeout(60)
        yield found
    finally:
        found.quit()


def axe_script() -> str:
    """Returns axe's script, which npm fetches once. Skips the test where it cannot be had."""
    kept = BUILD / "axe" / AXE / "axe.min.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip("no npm, which fetches axe-core")
        kept.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "pack", AXE, "--silent"],
            cwd=kept.parent,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"npm cannot fetch {AXE}: {done.stderr[-200:]}")
        with tarfile.open(kept.parent / done.stdout.split()[-1]) as packed:
            member = packed.extractfile("package/axe.min.js")
            assert member is not None
            kept.write_bytes(member.read())
    return kept.read_text()


def violations(driver: Any, script: str) -> list[str]:
    """Returns what axe finds against WCAG A and AA, a line for each rule with its first element."""
    driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    driver.execute_script(script)
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(r => done(r.violations))"
    )
    return [f"{each['id']}: {each['nodes'][0]['html'][:150]} ({each['help']})" for each in found]
