"""Finds objects that were recorded while the original ran, in a folder beside the checkout.

They are no part of this project. Without them, a test that needs them is skipped, and the objects
of ``tests.upgrade.situations`` replace them.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from framework.kube.resources import Object
from tests.support.servers.frameworkcrd import ROOT

RECORDED_ENV = "FRAMEWORKBARRIER_UPGRADE_FIXTURES"
BESIDE = ROOT.parent / "shared" / "upgrade-fixtures"


def find_recorded(env: Mapping[str, str]) -> Path | None:
    """Find the folder: one List a file, the Framework first, named like the Framework."""
    folder = Path(env.get(RECORDED_ENV, BESIDE))
    return folder if list(folder.glob("*.json")) else None


def read_recorded(folder: Path) -> dict[str, list[Object]]:
    """Read all situations."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))["items"]
        for path in sorted(folder.glob("*.json"))
    }
