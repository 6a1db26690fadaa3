"""The version of the package; pyproject.toml has the same one."""

VERSION = "0.1.0"
