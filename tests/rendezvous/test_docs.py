"""docs/rendezvous.md names every setting and file; its templates and the examples can be used."""

import re
from typing import Any

import pytest
import yaml

from rendezvous.renderers.registry import render_all
from rendezvous.settings.options import BEHAVIOUR, OPTIONS
from tests.rendezvous.gangs import build_gang, build_options, see
from tests.support.servers.frameworkcrd import ROOT

STACKS = ROOT / "examples" / "stacks"
DOC = (ROOT / "docs" / "rendezvous.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
EXAMPLES = sorted(STACKS.glob("*.yaml"))


def list_documents() -> "list[tuple[str, Any]]":
    found = [
        (f"docs-{number}", yaml.load(text, yaml.CSafeLoader)) for number, text in enumerate(BLOCKS)
    ]
    for path in EXAMPLES:
        documents = yaml.load_all(path.read_text(), yaml.CSafeLoader)
        found += [(path.name, document) for document in documents]
    return found


def list_pods(document: Any) -> "list[dict[str, Any]]":
    """Find what has containers, however deep."""
    if isinstance(document, list):
        return [pod for entry in document for pod in list_pods(entry)]
    if not isinstance(document, dict):
        return []
    own = [document] if "containers" in document or "initContainers" in document else []
    return own + [pod for value in document.values() for pod in list_pods(value)]


PODS = [(name, pod) for name, document in list_documents() for pod in list_pods(document)]
SETTING_NAMES = {setting.env_name for setting in OPTIONS}


@pytest.mark.parametrize(("name", "pod"), PODS, ids=[name for name, _ in PODS])
def test_template_names_settings_that_exist_and_mounts_volumes_it_has(
    name: str, pod: "dict[str, Any]"
) -> None:
    containers = [*pod.get("initContainers", ()), *pod.get("containers", ())]
    for container in containers:
        names = {variable["name"] for variable in container.get("env", ())}
        ours = {entry for entry in names if entry.startswith("FB_")}
        assert ours <= SETTING_NAMES, ours - SETTING_NAMES
        mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
        if "volumes" in pod:
            assert mounts <= {volume["name"] for volume in pod["volumes"]}
        if "/mnt/frameworkbarrier/agent/rendezvous.pyz" in container.get("command", ()):
            assert "rendezvous" in mounts
            installs = [c.get("args") for c in pod.get("initContainers", ())]
            assert ["install"] in installs or "initContainers" not in pod


def test_templates_were_found() -> None:
    assert len([name for name, _ in PODS if name.startswith("docs-")]) >= 6


def test_examples_of_stacks_are_explained_and_run_by_a_test() -> None:
    readme = (ROOT / "examples" / "README.md").read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "consumers").glob("test_*.py"))
    for path in EXAMPLES:
        assert f"[stacks/{path.name}](stacks/{path.name})" in readme
        assert f"stacks/{path.name}" in DOC
        assert f'"{path.name}"' in tests


def test_every_setting_is_documented() -> None:
    names = [setting.env_name for setting in OPTIONS]
    assert [name for name in names if f"`{name}" not in DOC] == []


def test_every_default_is_documented() -> None:
    rows = {line.split("`")[1]: line for line in DOC.splitlines() if line.startswith("| `")}
    for setting in BEHAVIOUR:
        row = rows.get(setting.env_name, "")
        if row and setting.default and "`, `" not in row and "=" not in row:
            assert f"| {setting.default} |" in row, setting.env_name


def test_every_file_is_documented() -> None:
    rendering = render_all(see(build_gang(2)), build_options())
    names = [*rendering.files, *rendering.fixed_files]
    assert [name for name in names if name not in DOC] == []
