"""Facts about the project's own files that no tool checks."""

import ast
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
import yaml

from framework.api import crd
from tests.support.machine.oldpython import find_old_python
from tools import manifests

ROOT = Path(__file__).parent.parent.parent
ZIPAPP_FILES = [
    ROOT / "framework" / "__init__.py",
    *(
        ROOT / "framework" / "api" / f"{name}.py"
        for name in ("__init__", "constants", "images", "naming", "roster")
    ),
    *sorted((ROOT / "framework" / "agent").rglob("*.py")),
]
# The older Pythons of users' images, where this machine has them.
OLD_PYTHONS = ("3.7", "3.8")


@pytest.mark.parametrize("path", ZIPAPP_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_zipapp_file_is_python_37(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize("version", OLD_PYTHONS)
def test_zipapp_files_are_importable_in_old_python(version: str) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in ZIPAPP_FILES
    ]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = subprocess.run(
        [find_old_python(version), "-B", "-W", "error", "-c", program, *modules],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


LOCK_FILES = [*ROOT.glob("requirements/*.txt"), *ROOT.glob("images/*/requirements.txt")]


@pytest.mark.parametrize("path", LOCK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lock_file_pins_by_hash_and_names_no_index(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text
    pinned = [line for line in text.splitlines() if "==" in line]
    assert pinned
    assert all(line.endswith("\\") for line in pinned), "a requirement without its hashes"


def test_crd_manifest_says_what_the_model_says() -> None:
    assert manifests.render_crd() == manifests.render_crd()
    assert yaml.safe_load(manifests.CRD_FILE.read_text(encoding="utf-8")) == crd.build_crd()


def test_framework_package_when_imported_loads_no_library() -> None:
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    program = "import framework, framework.api; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{path}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"logging", "asyncio", "json", "typing", "email"} & set(done.stdout.split())


# Limits belong into tests/support: waiting, pace and cost. In virtual time a limit is exact.
OWN_LIMIT = re.compile(
    r"asyncio\.timeout\([1-9]|\.(wait|join|result|communicate)\((timeout=)?[1-9][0-9.]*\)"
    r"|process_time\(|thread_time\(|mark\.timeout\([1-9]"
)
MEASURES = {"cost.py", "budget.py", "worker.py", "regexcost.py"}


def test_tests_have_no_time_limits_of_their_own() -> None:
    texts = {p: p.read_text() for p in (ROOT / "tests").rglob("*.py") if p.name not in MEASURES}
    found = {
        path.relative_to(ROOT).as_posix(): [m.group() for m in OWN_LIMIT.finditer(text)]
        for path, text in texts.items()
        if "looptime" not in text and OWN_LIMIT.search(text)
    }
    assert found == {}


# Each must be followed by its reason.
IGNORED = re.compile(r"type: ignore\[[a-z, -]+\]|noqa: *[A-Z]+[0-9]+(?:[, ]+[A-Z]+[0-9]+)*")
IGNORES = re.compile(r"\b(?:type: ?ignore|noqa)\b")


def find_unexplained(path: Path) -> list[str]:
    """List the comments of a file that switch a check off without a reason."""
    with path.open("rb") as file:
        comments = [t for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT]
    return [
        f"{path.relative_to(ROOT)}:{comment.start[0]}"
        for comment in comments
        if IGNORES.search(comment.string) and not is_explained(comment.string)
    ]


def is_explained(comment: str) -> bool:
    """Return whether a comment names each check that it switches off, and has a reason."""
    rest = IGNORED.sub("", comment)
    return not IGNORES.search(rest) and bool(re.search(r"[^\W\d_]{2}", rest))


@pytest.mark.parametrize(
    ("comment", "is_good"),
    [
        ("# noqa: F401 for its users", True),
        ("# type: ignore[x]  # noqa: F401, E402  (a callback)", True),
        ("# noqa", False),
        ("# noqa: F401", False),
        ("# noqa: F401 E402", False),
        ("# type: ignore[x]  # noqa", False),
        ("# type: ignore[x]  # noqa:  F401", False),
        ("# noqa for its users", False),
    ],
)
def test_ignored_check_without_code_or_reason_is_found(comment: str, is_good: bool) -> None:  # noqa: FBT001  a parameter of the test
    assert is_explained(comment) == is_good


def test_each_ignored_check_has_a_reason() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split()]
    some = [path for path in paths if IGNORES.search(path.read_text(encoding="utf-8"))]
    assert [found for path in some for found in find_unexplained(path)] == []
