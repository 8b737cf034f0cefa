"""The commands in the texts of the examples work as they are."""

import re
from pathlib import Path

import pytest

from tests.examples.commandline import EXAMPLES, call
from tests.support.servers.frameworkcrd import ROOT

FILES = sorted(EXAMPLES.glob("**/*.yaml"))
_RUN = re.compile(r"framework run --local --directory (?P<directory>\S+) (?P<file>\S+)")
_EXPORT = re.compile(r"export KUBECONFIG=(?P<directory>\S+)/kubeconfig")


def read_header(path: Path) -> str:
    """Read the comment at the top, with its long lines joined."""
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.lstrip("# ") for line in lines[:end])


def find_fault(path: Path, header: str) -> str:
    """Return why the second shell does not reach the cluster of the first, or "" if it does."""
    run, export = _RUN.search(header), _EXPORT.search(header)
    if run is None or export is None:
        return "without --directory and KUBECONFIG, kubectl finds no cluster"
    if ROOT / run["file"] != path:
        return f"runs {run['file']}"
    return "" if run["directory"] == export["directory"] else "two directories"


def is_changed_while_it_runs(header: str) -> bool:
    return "another shell" in header or "kubectl patch" in header


def test_lint_finds_nothing_in_any_example() -> None:
    linted = call("lint", *(str(path.relative_to(ROOT)) for path in FILES))
    assert (linted.returncode, linted.stdout) == (0, "nothing found\n"), linted.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_header_names_the_local_cluster_for_a_second_shell(path: Path) -> None:
    header = read_header(path)
    assert not is_changed_while_it_runs(header) or find_fault(path, header) == ""


def test_all_examples_that_are_rescaled_name_a_second_shell() -> None:
    names = {path.name for path in FILES if is_changed_while_it_runs(read_header(path))}
    assert names == {
        "horovod-elastic.yaml",
        "rescale.yaml",
        "tensorflow-keras-rescale.yaml",
        "torchrun-elastic.yaml",
    }


def test_readme_names_one_directory_for_both_shells() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert find_fault(EXAMPLES / "rescale.yaml", readme) == ""
    assert "kubectl apply -k deploy/agents/namespace" in readme
