"""Tab completion of topics and groups, as a shell asks for it."""

import os
import subprocess
import sys
from pathlib import Path

from siltstone.server.embedded import Broker
from support.processes.cli import CLEAN, run

PROGRAM = [sys.executable, "-c", "from siltstone.cli.main import main; main()"]


def completed(typed: str, **environment: str) -> list[str]:
    """What bash offers when TAB is pressed at the end of ``typed``."""
    words = typed.split(" ")
    kept = {name: value for name, value in os.environ.items() if name not in CLEAN}
    asked = {"_SILTSTONE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        PROGRAM, env=kept | asked | environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == "", done.stderr
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_topics_and_groups_are_completed(siltstone_broker: Broker, siltstone_topic: str) -> None:
    at = siltstone_broker.bootstrap_servers
    produced = run("produce", siltstone_topic, "--create", "-b", at, stdin=b"a\n")
    assert produced.status == 0
    group = f"readers-of-{siltstone_topic}"
    assert run("consume", siltstone_topic, "-g", group, "--from-beginning", "-n", 1, "-b", at).status == 0

    begun = siltstone_topic[:-2]
    assert completed(f"siltstone tail -b {at} {begun}") == [siltstone_topic]
    assert completed(f"siltstone topics describe {begun}", SILTSTONE_BOOTSTRAP=at) == [siltstone_topic]
    assert completed(f"siltstone topics -b {at} delete {begun}") == [siltstone_topic]
    assert completed(f"siltstone groups describe readers-of-{begun}", SILTSTONE_BOOTSTRAP=at) == [group]
    assert completed(f"siltstone consume t -b {at} --group readers-of-{begun}") == [group]
    assert completed("siltstone tail __consumer", SILTSTONE_BOOTSTRAP=at) == ["__consumer_offsets"]


def test_a_client_config_that_was_typed_is_used(tmp_path: Path) -> None:
    """It names the login without which the broker answers nothing."""
    with Broker(users={"ada": "pencil"}) as broker:
        config = broker.client_config("ada")
        file = tmp_path / "ada.properties"
        file.write_text(
            "\n".join(f"{name}={value}" for name, value in config.items() if "bootstrap" not in name)
        )
        file.chmod(0o600)
        at = f"-b {broker.bootstrap_servers} --client-config {file}"
        assert run("topics", *at.split(), "create", "flights").status == 0
        assert completed(f"siltstone tail {at} fl") == ["flights"]
        assert completed(f"siltstone topics {at} describe fl") == ["flights"]
        assert "flights" not in completed(f"siltstone tail -b {broker.bootstrap_servers} fl")
