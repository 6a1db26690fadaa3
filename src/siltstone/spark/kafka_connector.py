"""The jars of Spark's own Kafka connector, ``format("kafka")``, which pyspark does not contain.

They are fetched from Maven Central once and kept in the user's cache folder. Their versions are the ones that the tests
run with, whatever Maven Central has by the name of pyspark's own version; their checksums are noted here, so what is
fetched is what was tried. A folder is complete or absent, whichever process is interrupted: it is filled under another
name."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from siltstone.spark.ivy import Jar, JarsUnavailable, recipe, retrieve
from siltstone.spark.java import find_java

JARS: dict[Jar, str] = {
    Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"):
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"):
        "ab6e27a8a47ce63348dd0ecbd5543dc6212b4783180305cde5749e79684ea97b",
    Jar("org.apache.kafka", "kafka-clients", "3.9.2"):
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    Jar("org.apache.commons", "commons-pool2", "2.13.1"):
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
}  # fmt: skip
"""Jar → SHA-256. The newest of each that Maven Central served when this was written; pyspark has the rest
of what they need."""

VERSION = "4.2.0"


def kafka_connector_jars(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Returns the jars, fetched unless they are in ``siltstone/kafka-connector-VERSION`` of the cache folder
    (XDG_CACHE_HOME, else ``~/.cache``). Raises JarsUnavailable and JavaNotFound."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "siltstone"
    folder = cache / f"kafka-connector-{VERSION}"
    if not _is_complete(folder):
        _fetch(folder, find_java(environment).home / "bin" / "java")
    return tuple(sorted(folder.glob("*.jar")))


def _is_complete(folder: Path) -> bool:
    return {jar.name: _digest(jar) for jar in folder.glob("*.jar")} == _expected()


def _expected() -> dict[str, str]:
    return {f"{jar.name}-{jar.version}.jar": digest for jar, digest in JARS.items()}


def _fetch(folder: Path, java: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    filling = Path(tempfile.mkdtemp(dir=folder.parent, prefix="filling-"))
    try:
        wanted = recipe("kafka-connector", JARS, with_dependencies=False)
        retrieve(wanted, filling, cache=filling / "ivy", java=java)
        if not _is_complete(filling):
            raise JarsUnavailable(
                "Maven Central served other jars than the ones that were tried with Siltstone"
            )
        shutil.rmtree(filling / "ivy", ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another process was faster
            filling.rename(folder)
    finally:
        shutil.rmtree(filling, ignore_errors=True)


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()
