from pathlib import Path

import pytest

from siltstone.model.serving_limits import Price
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.settings.admin import AdminPrices, AdminSettings
from siltstone.server.settings.node import load_node_settings


def loaded(folder: Path, **flags: str) -> AdminSettings:
    return load_node_settings(
        folder, environment={}, flags={f"admin.{key}": text for key, text in flags.items()}
    ).admin


def test_nothing_is_served_until_a_setting_says_where(tmp_path: Path) -> None:
    assert loaded(tmp_path) == AdminSettings()
    assert not AdminSettings().is_on and not AdminSettings().open_to_network_without_login


def test_listeners_may_be_a_list_in_a_file_and_be_switched_off_by_a_flag(tmp_path: Path) -> None:
    text = '[admin]\nlisteners = ["127.0.0.1:1", "localhost:2"]\nallowed_hosts = ["a", "b"]\n'
    text += "prices.reads_per_million = 1\n"
    (tmp_path / "siltstone.toml").write_text(text)
    found = loaded(tmp_path)
    assert (found.is_on, found.listeners, found.allowed_hosts) == (True, "127.0.0.1:1,localhost:2", "a,b")
    assert found.prices == AdminPrices(reads_per_million=Price(1.0))
    assert not loaded(tmp_path, listeners="off").is_on


@pytest.mark.parametrize("name", ["listeners", "maintenance_listeners"])
def test_off_stands_alone(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingRefused, match=f'admin.{name} is "off" or a list of HOST:PORT, not both'):
        loaded(tmp_path, **{name: "127.0.0.1:1,off"})


def test_the_process_of_maintenance_has_listeners_of_its_own(tmp_path: Path) -> None:
    found = loaded(tmp_path, listeners="127.0.0.1:1", allowed_hosts="a")
    assert not found.of_maintenance.is_on
    found = loaded(tmp_path, listeners="127.0.0.1:1", maintenance_listeners="127.0.0.1:2", allowed_hosts="a")
    assert found.of_maintenance.listeners == "127.0.0.1:2" and found.of_maintenance.allowed_hosts == "a"


@pytest.mark.parametrize(("text", "price"), [("0", 0.0), ("0.4", 0.4), ("5", 5.0), ("1e-3", 0.001)])
def test_prices_are_decimal_numbers(tmp_path: Path, text: str, price: float) -> None:
    settings = load_node_settings(tmp_path, environment={"SILTSTONE_ADMIN_PRICES_READ_PER_GIB": text})
    assert settings.admin.prices.read_per_gib == price
    assert f"admin.prices.read_per_gib = {price}" in str(settings)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "free", "", "5 USD"])
def test_what_is_no_price_is_refused(tmp_path: Path, text: str) -> None:
    flags = {"admin.prices.writes_per_million": text}
    with pytest.raises(SettingRefused, match=r"use a price of 0 or more, such as 0\.4"):
        load_node_settings(tmp_path, environment={}, flags=flags)
