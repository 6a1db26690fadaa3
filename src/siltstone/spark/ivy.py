"""Apache Ivy fetches Java archives (jars) from Maven Central: pyspark ships its jar, and its own settings know the
repository."""

import subprocess
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from siltstone.model.errors import InvalidRequest

FETCH_SECONDS_MAX = 600


class JarsUnavailable(InvalidRequest):
    """They cannot be fetched: the repository does not answer, or does not have them."""


class Jar(msgspec.Struct, frozen=True):
    """``classifiers`` name further archives of the module, such as ``tests``, which are fetched beside the main one."""

    organisation: str
    name: str
    version: str
    classifiers: tuple[str, ...] = ()


def pyspark_jars() -> Path:
    """Returns the folder of Spark's own jars. Raises JarsUnavailable."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise JarsUnavailable("Spark is the package pyspark; install it: pip install 'siltstone[spark]'")
    return Path(found.origin).parent / "jars"


def recipe(
    name: str, jars: Iterable[Jar], *, with_dependencies: bool = True, excluded: Sequence[str] = ()
) -> str:
    """Returns the ``ivy.xml`` that names them. ``excluded``: regular expressions of names."""
    transitive = str(with_dependencies).lower()
    lines = ['<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">']
    lines += [f'<info organisation="siltstone" module="{name}"/>']
    lines += ['<configurations><conf name="default"/></configurations>', "<dependencies>"]
    lines += [
        f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}"'
        f' conf="default->default" transitive="{transitive}">{_archives(jar)}</dependency>'
        for jar in jars
    ]
    lines += [f'<exclude module="{pattern}" matcher="regexp"/>' for pattern in excluded]
    return "\n".join([*lines, "</dependencies>", "</ivy-module>", ""])


def _archives(jar: Jar) -> str:
    """Returns the list of archives; nothing, if the main one is the only one."""
    if not jar.classifiers:
        return ""
    attributes = ("", *(f' m:classifier="{classifier}"' for classifier in jar.classifiers))
    return "".join(f'<artifact name="{jar.name}" type="jar" ext="jar"{each}/>' for each in attributes)


def retrieve(wanted: str, into: Path, *, cache: Path, java: Path) -> None:
    """Puts the jars of a recipe, which it writes there, too, into an empty folder. ``java``: the program. Raises
    JarsUnavailable."""
    (ivy,) = pyspark_jars().glob("ivy-*.jar")
    named = into / "ivy.xml"
    named.write_text(wanted)
    command = [str(java), "-XX:TieredStopAtLevel=1", "-jar", str(ivy), "-cache", str(cache)]
    command += ["-ivy", str(named), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", str(into / "[artifact]-[revision](-[classifier]).[ext]")]
    try:
        done = subprocess.run(  # noqa: S603  the Java that was found
            command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired as timeout:
        raise JarsUnavailable(f"Maven Central did not answer in {FETCH_SECONDS_MAX} s") from timeout
    if done.returncode != 0 or "UNRESOLVED DEPENDENCIES" in done.stdout:
        raise JarsUnavailable(f"Maven Central did not serve the jars: {_reason(done.stdout + done.stderr)}")


def _reason(said: str) -> str:
    """Returns the reason in Ivy's output. The line that the server was not reached comes after the lines of jars that
    were therefore not found."""
    lines = [line.strip() for line in said.splitlines()]
    if any("PKIX path building failed" in line for line in lines):
        return (
            "this Java does not trust the certificate of the server, or of a proxy before it; "
            "set JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE, or SILTSTONE_JAVA to the home of a Java that does"
        )
    for telling in ("server access error", "not found", "error", ""):
        for line in lines:
            if line and telling in line.lower():
                return line
    return "Ivy said nothing"
