"""Computes the metadata of `frameworkbarrier-local`. Called by hatchling, never at run time.

The version is that of framework/version.py. The local cluster imports internal modules of
`frameworkbarrier`, so it requires exactly the same version of it. A build from the sdist takes both
from its PKG-INFO.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_VERSION_FILE = Path("../framework/version.py")
_REQUIREMENTS = Path("requirements.in")


class LocalMetadata(MetadataHookInterface):
    """Fills in the dynamic fields of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set version and dependencies."""
        version = _read_version(Path(self.root) / _VERSION_FILE)
        metadata["version"] = version
        metadata["dependencies"] = [
            f"frameworkbarrier=={version}",
            *_read_requirements(Path(self.root) / _REQUIREMENTS),
        ]


def _read_version(path: Path) -> str:
    found = re.search(r'^VERSION = "([^"]+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{path}: no line `VERSION = ...`")
    return found[1]


def _read_requirements(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
