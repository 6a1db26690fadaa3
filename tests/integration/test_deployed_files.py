"""The files in deploy/ name only what exists: settings, commands, options, metrics, ports; and they keep the rules by
which a broker is run. What renders and judges the chart is in test_chart.py."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from siltstone.model.version import VERSION
from siltstone.offline.opening.layers import ENVIRONMENT_PREFIX, NOT_SETTINGS, environment_layer
from siltstone.server.settings.listeners import key_of_variable
from siltstone.server.settings.node import SETTINGS, load_node_settings
from support.broker.broker_process import SILTSTONE
from support.pages.documents import ROOT
from support.pages.known_commands import assert_known

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "container" / "compose.yml").read_text())
CHART = DEPLOY / "helm" / "siltstone"
TEMPLATES = re.sub(
    r"\{\{/\*.*?\*/\}\}", "", "".join(file.read_text() for file in sorted((CHART / "templates").iterdir())),
    flags=re.DOTALL,
)  # fmt: skip
STOP_SECONDS = 25
"""The longest stop of a broker with the defaults; test_operations_page.py holds it against the settings."""


def unit(file: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment]  systemd's names have capitals
    parser.read_string(file.read_text())
    return parser


def commands_of(text: str) -> list[str]:
    """What follows the program's name in the lines of a unit or a template, up to the end of a shell's word."""
    found = re.findall(r"(?<![\w/-])(?:/opt/siltstone/bin/)?siltstone ([a-z].*)$", text, re.MULTILINE)
    return [re.sub(r"\{\{.*?\}\}", "", line).removesuffix("'").removesuffix(" || true") for line in found]


def variables_of(text: str) -> set[str]:
    return set(re.findall(rf"\b{ENVIRONMENT_PREFIX}[A-Z0-9_]+\b", text))


def assert_settings(names: set[str]) -> None:
    environment_layer(dict.fromkeys(names - NOT_SETTINGS, "1"), SETTINGS, key_of_variable)


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_op05_a_unit_starts_a_command_that_there_is_and_is_no_root(file: Path) -> None:
    service = unit(file)["Service"]
    (line,) = commands_of(service["ExecStart"])
    assert assert_known(line)[0] in ("serve", "maintain", "backup")
    assert service["User"] == "siltstone" and service["NoNewPrivileges"] == "true"
    assert service["ProtectSystem"] == "strict" and service["UMask"] == "0077"
    if service.get("Type") == "exec":
        assert int(service["TimeoutStopSec"]) >= STOP_SECONDS + 10


def test_op05_each_timer_starts_a_unit_and_each_unit_is_started() -> None:
    started = {file.with_suffix(".service") for file in TIMERS}
    assert started < set(UNITS)
    assert all("Install" in unit(file) for file in TIMERS)
    assert [file.stem for file in UNITS if "Install" in unit(file)] == ["siltstone"]


def test_op05_systemd_accepts_the_units_and_timers(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for file in (*UNITS, *TIMERS):
        text = file.read_text().replace("/opt/siltstone/bin/siltstone", str(SILTSTONE))
        (tmp_path / file.name).write_text(text.replace("User=siltstone", "User=root"))
    done = verified(tmp_path)
    assert str(tmp_path) not in done and ".service" not in done, done
    broken = tmp_path / "siltstone.service"
    broken.write_text(broken.read_text().replace("TimeoutStopSec", "TimeoutStopSecs"))
    assert "TimeoutStopSecs" in verified(tmp_path), "what is wrong would be found"


def verified(folder: Path) -> str:
    files = sorted(str(file) for file in folder.iterdir())
    command = ["systemd-analyze", "verify", *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr


def instructions(name: str) -> list[str]:
    joined = CONTAINERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} +(.*)$", joined, re.MULTILINE)


def test_op05_the_image_is_no_root_is_healthy_by_livez_and_drains_at_sigterm() -> None:
    assert instructions("USER") == ["10001:10001"] and instructions("STOPSIGNAL") == ["SIGTERM"]
    (health,) = instructions("HEALTHCHECK")
    command = json.loads(health.partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "healthcheck", "exec")
    (variables,) = instructions("ENV")
    address = re.search(r"SILTSTONE_ADMIN_LISTENERS=(\S+)", variables)
    assert address and f"http://{address[1]}/livez" in command[2]
    assert_settings(variables_of(CONTAINERFILE))
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["siltstone"], (
        "so it is process 1, and gets the signal"
    )
    assert assert_known(" ".join(json.loads(instructions("CMD")[0]))) == ["serve"]
    for copied in instructions("COPY"):
        *sources, _ = [word for word in shlex.split(copied) if not word.startswith("--")]
        assert "--from" in copied or all((ROOT / source).exists() for source in sources), copied
    listed = re.findall(r"-r /source/(\S+)", CONTAINERFILE)
    assert listed == ["requirements/container.txt"] and "--require-hashes" in CONTAINERFILE


def test_op05_the_compose_file_names_settings_and_commands_that_there_are() -> None:
    ours = {name: each for name, each in COMPOSE["services"].items() if each["image"] == "siltstone"}
    assert set(ours) == {"broker", "maintenance"}
    for service in ours.values():
        assert_settings(variables_of(" ".join(service["environment"])))
        assert assert_known(shlex.join(service["command"]))
        assert int(service["stop_grace_period"].removesuffix("s")) >= STOP_SECONDS + 10
        assert service["cap_drop"] == ["ALL"] and service["read_only"]
        build = DEPLOY / "container" / service["build"]["context"]
        assert (build / service["build"]["dockerfile"]).resolve() == DEPLOY / "container" / "Containerfile"
        volumes = {mount.partition(":")[0] for mount in service["volumes"]}
        assert volumes < set(COMPOSE["volumes"])
        assert set(service["depends_on"]) < set(COMPOSE["services"])
    broker = ours["broker"]["environment"]
    settings = load_node_settings(
        Path("any"),
        environment={name: value for name, value in broker.items() if name.startswith("SILTSTONE")},
    )
    assert settings.metadata.startswith("postgresql://") and settings.buckets[0].startswith("s3://")
    assert all(str(port).startswith("127.0.0.1:") for port in ours["broker"]["ports"]), "there is no login"
    assert not re.search(r"(PASSWORD|SECRET_ACCESS_KEY): [^$]", yaml.dump(COMPOSE)), "secrets come from .env"


def test_op05_the_chart_names_settings_and_commands_that_there_are() -> None:
    assert_settings(variables_of(TEMPLATES))
    written = re.findall(r'^ +"([a-z0-9_.]+)" = ', TEMPLATES, re.MULTILINE)
    assert len(written) == 4
    assert [key for key in written if key not in SETTINGS] == ["buckets.0"]
    lines = commands_of(TEMPLATES)
    assert {assert_known(line)[0] for line in lines} == {"nodes", "backup"}
    assert (
        assert_known("maintain serve --runner=in-process")
        and "args: [maintain, serve, --runner=" in TEMPLATES
    )
    assert "enableServiceLinks: false" in TEMPLATES, "or a service's SILTSTONE_PORT is an unknown setting"


def test_op05_the_charts_examples_of_settings_are_settings() -> None:
    examples = re.findall(r"^#  ([a-z_.]+): (\S+)$", (CHART / "values.yaml").read_text(), re.MULTILINE)
    assert len(examples) == 2
    assert load_node_settings(Path("any"), environment={}, flags=dict(examples))


def test_op05_every_value_of_the_chart_is_used_and_is_in_its_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
    for name, value in values.items():
        if isinstance(value, dict) and "properties" in schema["properties"][name]:
            assert set(value) == set(schema["properties"][name]["properties"]), name
            paths = [f".Values.{name}.{key}" for key in value]
        else:
            paths = [f".Values.{name}"]
        assert [path for path in paths if path not in TEMPLATES] == []
    used = {match.split(".")[0] for match in re.findall(r"\.Values\.([\w.]+)", TEMPLATES)}
    assert used == set(values)


def test_op05_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == VERSION
