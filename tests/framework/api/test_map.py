"""The map of the modules in the docstring of ``framework.api``."""

import re
from collections import Counter
from pathlib import Path

from framework import api


def test_map_names_each_module_once() -> None:
    listed = Counter(
        name
        for line in (api.__doc__ or "").splitlines()
        if line.startswith("- ")
        for name in re.findall(r"``(\w+)``", line)
    )
    modules = {path.stem for path in Path(api.__file__).parent.glob("*.py")} - {"__init__"}
    assert listed == dict.fromkeys(modules, 1)
