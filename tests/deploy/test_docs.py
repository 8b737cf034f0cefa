"""docs/operations.md, docs/migration.md and deploy/ agree with the code."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.app import main as controller_command
from controller.config.config_file import ControllerConfig
from controller.core.decision import SnapshotTrigger
from controller.serve.metrics import Metrics
from framework.api import constants
from tools import manifests

ROOT = manifests.DEPLOY.parent
DOCS = ROOT / "docs"
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")
MIGRATION = (DOCS / "migration.md").read_text(encoding="utf-8")
PAGES = [DOCS / "operations.md", DOCS / "migration.md", manifests.DEPLOY / "agents" / "README.md"]
SUFFIXES = ("_bucket", "_sum", "_count")


def read_section(page: str, title: str) -> str:
    """Return the text under a heading, up to the next one."""
    return re.split(r"^#+ ", page.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def read_rows(text: str) -> list[list[str]]:
    """Read the cells of all tables, without their heads."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set(row[0]) <= {"-"}][1:]


def list_metrics() -> dict[str, tuple[str, tuple[str, ...]]]:
    """List the metrics of the controller: type and labels by name."""
    collectors = Metrics()._registry._collector_to_names
    found = {}
    for collector in collectors:
        (family,) = collector.collect()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = (family.type, tuple(collector._labelnames))  # type: ignore[attr-defined]  # no public way
    return found


def read_alerts() -> list[dict[str, Any]]:
    text = re.findall(r"```yaml\n(.*?)```", read_section(OPERATIONS, "Alerts"), re.DOTALL)[0]
    (group,) = yaml.safe_load(text)["spec"]["groups"]
    alerts: list[dict[str, Any]] = group["rules"]
    return alerts


def test_flags_are_those_of_the_controller() -> None:
    rows = read_rows(read_section(OPERATIONS, "Flags"))
    documented = {flag for row in rows for flag in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row[0])}
    options = {o for p in controller_command.params for o in (*p.opts, *p.secondary_opts)}
    assert documented == options | {"-h", "--help"}


def test_metrics_are_those_of_the_controller() -> None:
    rows = read_rows(read_section(OPERATIONS, "Metrics"))
    documented = {
        row[0].strip("`"): (row[1], tuple(filter(None, row[2].split(", ")))) for row in rows
    }
    assert documented == list_metrics()


@pytest.mark.parametrize("alert", read_alerts(), ids=lambda alert: str(alert["alert"]))
def test_alert_asks_for_metrics_and_labels_that_exist(alert: dict[str, Any]) -> None:
    known = list_metrics()
    used = re.findall(r"(frameworkcontroller_\w+)(?:\{(\w+)=)?", alert["expr"])
    assert used
    for name, label in used:
        base = next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name)
        kind, labels = known[base]
        assert (base != name) == (kind == "histogram")
        assert not label or label in labels
    grouped = {g for text in re.findall(r"by \(([^)]*)\)", alert["expr"]) for g in text.split(", ")}
    labels_of_all = {label for name, _ in used for label in known.get(name, ("", ()))[1]}
    assert grouped <= labels_of_all | {"le"}
    assert alert["annotations"]["summary"].endswith(".")


def test_rights_are_those_of_the_roles() -> None:
    documented: dict[str, set[str]] = {}
    for resources, verbs, _ in read_rows(read_section(OPERATIONS, "What it may do")):
        for resource in resources.split(","):
            if not resource.strip().startswith("in the"):
                words = set(re.findall(r"\b[a-z]{3,}\b", verbs))
                documented[resource.strip()] = words - {"one", "name"}
    granted: dict[str, set[str]] = {}
    for body in yaml.safe_load_all(manifests.INSTALL_FILE.read_text(encoding="utf-8")):
        for rule in body.get("rules") or [] if body["kind"] in {"Role", "ClusterRole"} else []:
            for resource in rule["resources"]:
                granted.setdefault(resource, set()).update(rule["verbs"])
    assert documented == granted


@pytest.mark.parametrize("trigger", list(SnapshotTrigger))
def test_history_trigger_is_in_the_docs(trigger: SnapshotTrigger) -> None:
    assert trigger in read_section(OPERATIONS, "History")


def test_extensions_are_in_the_list_of_differences() -> None:
    fields = ("ABSENT_TASK_INDICES", "MIN_MEMBER_COUNT", "DRAIN", "COMPLETED_POD_POLICY")
    for field in fields:
        name = getattr(constants, f"{field}_FIELD")
        assert f"`{name}`" in read_section(MIGRATION, "What is different")


def test_uninstall_deletes_all_that_agents_were_granted() -> None:
    section = read_section((DOCS / "install.md").read_text(encoding="utf-8"), "Uninstall")
    found = re.search(r"kubectl delete (\S+) --all-namespaces \\\n +-l (\S+)=(\S+)", section)
    assert found is not None
    kinds, key, value = found.groups()
    texts = [path.read_text() for path in (manifests.DEPLOY / "agents").glob("*/*.yaml")]
    bodies = [body for text in texts for body in yaml.safe_load_all(text)]
    granted = [body for body in bodies if body["kind"] != "Kustomization"]
    assert {body["kind"].lower() for body in granted} <= set(kinds.split(","))
    assert {body["metadata"]["labels"][key] for body in granted} == {value}


def test_pages_apply_the_crd_with_force_over_another_field_manager() -> None:
    # After a replace, as migration.md has it, an apply without force ends with a conflict.
    upgrade = (DOCS / "upgrade.md").read_text(encoding="utf-8")
    lost = next(line for line in OPERATIONS.splitlines() if "lost its status subresource" in line)
    command = "kubectl apply --server-side --force-conflicts -f deploy/base/crd.yaml"
    assert command in upgrade
    assert command in lost


def test_retention_in_the_docs_is_the_default() -> None:
    days = ControllerConfig().framework_completed_retain_seconds // 86400
    assert f"{days} days by default" in OPERATIONS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_paths_in_commands_exist(page: Path) -> None:
    for path in re.findall(r"\bdeploy/[\w./-]+\w", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path
