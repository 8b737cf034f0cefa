"""The agents' zipapp runs on old Pythons: its files must at least parse there."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
API_MODULES = ("__init__", "constants", "images", "naming", "packed", "roster", "text")
FILES = [
    *sorted((ROOT / "framework" / "agent").glob("*.py")),
    *(ROOT / "framework" / "api" / f"{name}.py" for name in API_MODULES),
]
TOO_NEW = {"Protocol", "Literal", "Final", "TypedDict", "TypeAlias", "Self"}
ZIPAPP_MODULES = ("framework.agent.", "framework.api.constants", "framework.api.naming")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_zipapp_file_parses_as_python_3_7(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 7))
    imported = {
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not {name for module, name in imported if module == "typing"} & TOO_NEW
    ours = {f"{module}.{name}" for module, name in imported if module.startswith("framework")}
    shared = ("framework.api.packed", "framework.api.roster", "framework.api.text")
    allowed = (*ZIPAPP_MODULES, *shared)
    assert all(name.startswith(allowed) for name in ours), ours
