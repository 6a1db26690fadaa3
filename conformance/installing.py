"""Installs what clients need besides Python, where an ordinary package manager has it, and says what is missing."""

import fcntl
import shutil
import subprocess
from pathlib import Path

from oracles.java_artifacts import APACHE_KAFKA, JavaArtifactsUnavailable, fetch_jars

ROOT = Path(__file__).parents[1]
KAFKAJS = ROOT / ".build" / "kafkajs"
NODE_MODULES = KAFKAJS / "node_modules"
PACKAGE_FILE = Path(__file__).parent / "drivers" / "kafkajs" / "package.json"
_NPM_SECONDS_MAX = 300


def missing_kcat() -> str:
    return "" if shutil.which("kcat") else "kcat is not installed (Debian: apt install kcat)"


def missing_java() -> str:
    try:
        fetch_jars(APACHE_KAFKA)
    except JavaArtifactsUnavailable as unavailable:
        return str(unavailable)
    return ""


def missing_node() -> str:
    """Returns the folder of kafkajs, which is installed into .build/ if it is missing."""
    if not (shutil.which("node") and shutil.which("npm")):
        return "node and npm are not installed"
    KAFKAJS.mkdir(parents=True, exist_ok=True)
    with (KAFKAJS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers ask at the same moment
        return "" if _is_installed() else _install()


def _is_installed() -> bool:
    installed = KAFKAJS / "package.json"
    return installed.is_file() and installed.read_text() == PACKAGE_FILE.read_text()


def _install() -> str:
    """Installs into a folder with another name, until it is complete."""
    filling = KAFKAJS / "filling"
    shutil.rmtree(filling, ignore_errors=True)
    filling.mkdir()
    shutil.copy(PACKAGE_FILE, filling)
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
    ]
    try:
        done = subprocess.run(
            command, cwd=filling, capture_output=True, text=True, timeout=_NPM_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return "npm does not answer"
    if done.returncode != 0:
        return f"npm could not install kafkajs: {done.stderr.strip()[:200]}"
    shutil.rmtree(NODE_MODULES, ignore_errors=True)
    (filling / "node_modules").rename(NODE_MODULES)
    shutil.copy(PACKAGE_FILE, KAFKAJS)
    return ""
