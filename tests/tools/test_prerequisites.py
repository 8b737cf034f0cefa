"""A suite installs the packages it needs; if it cannot, it fails in CI and is skipped elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.consumers import install as consumers
from tests.skips import DOES_NOT_APPLY, NO_RECORDINGS, find_forbidden_skip
from tests.support.machine import prerequisites
from tests.support.machine.prerequisites import (
    MissingPrerequisiteError,
    install_packages,
    install_programs,
    report_missing,
)

Captured = pytest.CaptureFixture[str]
# Packages "installed" by the fake apt-get become files, which the fake dpkg-query reads; each
# package brings the program of its own name.
FAKE_APT = """\
#!/bin/sh
echo "$@" >>"{folder}/calls"
case "$*" in
    update*) exit 100 ;;
    *broken*) echo "E: Unable to locate package broken" >&2; exit 100 ;;
esac
while [ "$1" != DPkg::Lock::Timeout=300 ]; do shift; done
shift
for package; do
    echo >"{folder}/installed-$package"
    printf '#!/bin/sh\\n' >"{folder}/bin/$package" && chmod +x "{folder}/bin/$package"
done
"""
FAKE_DPKG = """\
#!/bin/sh
for package; do :; done
if [ -e "{folder}/installed-$package" ]; then printf installed; else exit 1; fi
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian machine without any package, where the tests are root."""
    (tmp_path / "bin").mkdir()
    write_program(tmp_path, "apt-get", FAKE_APT)
    write_program(tmp_path, "dpkg-query", FAKE_DPKG)
    for name in ("sh", "chmod", "cat"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    prerequisites._update_package_lists.cache_clear()
    return tmp_path


def write_program(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(script.format(folder=folder))
    path.chmod(0o755)


def list_calls(machine: Path) -> list[str]:
    calls = machine / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_install_packages_updates_the_lists_once_and_installs_what_is_missing(
    machine: Path,
) -> None:
    install_packages(["runc", "containerd"])
    install_packages(["runc"])
    install_packages(["iproute2", "runc"])
    options = "--yes --no-install-recommends --no-remove -o DPkg::Lock::Timeout=300"
    assert list_calls(machine) == [
        "update",
        f"install {options} runc containerd",
        f"install {options} iproute2",
    ]


def test_install_packages_as_an_ordinary_user_names_them(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingPrerequisiteError, match=r"^install the packages runc containerd$"):
        install_packages(["runc", "containerd"])
    assert list_calls(machine) == []


def test_install_packages_refused_by_apt_get_gives_its_reason(machine: Path) -> None:
    reason = "apt-get failed: E: Unable to locate package broken"
    with pytest.raises(MissingPrerequisiteError, match=f"^install the packages broken: {reason}$"):
        install_packages(["broken"])


def test_install_packages_without_apt_get_names_them(machine: Path) -> None:
    (machine / "bin" / "apt-get").unlink()
    with pytest.raises(MissingPrerequisiteError, match=r"^install the packages runc$"):
        install_packages(["runc"])


def test_install_programs_installs_packages_of_missing_programs_or_names_them(
    machine: Path,
) -> None:
    write_program(machine, "present", "#!/bin/sh\n")
    install_programs({"present": "other", "buildah": "buildah"}, ["cni"])
    assert [line.split()[-2:] for line in list_calls(machine)[1:]] == [["buildah", "cni"]]
    absent = "^iptables not found on the PATH, from the packages nftables$"
    with pytest.raises(MissingPrerequisiteError, match=absent):
        install_programs({"iptables": "nftables"})


@pytest.mark.parametrize(
    ("ci", "code", "line"),
    [
        ("", 0, "SKIPPED: install Go\n"),
        ("false", 0, "SKIPPED: install Go\n"),
        ("true", 1, "FAILED: install Go; with CI=true no suite is skipped\n"),
        ("1", 1, "FAILED: install Go; with CI=true no suite is skipped\n"),
    ],
)
def test_report_missing_fails_in_ci_only(
    ci: str, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("CI", ci)
    assert report_missing(MissingPrerequisiteError("install Go")) == code
    assert capsys.readouterr().out == line


RECORDINGS = f"{NO_RECORDINGS}see CONTRIBUTING.md"


@pytest.mark.parametrize(
    ("reason", "env", "is_forbidden"),
    [
        ("no dash", {}, False),
        ("no dash", {"CI": "true"}, True),
        ("no dash", {"CI": "true", "DIFFTEST_DIR": "none"}, True),
        (f"{DOES_NOT_APPLY}no IPv6", {"CI": "true"}, False),
        (RECORDINGS, {"CI": "true"}, True),
        (RECORDINGS, {"CI": "true", "DIFFTEST_DIR": "none"}, False),
    ],
)
def test_find_forbidden_skip_in_ci_allows_only_what_does_not_apply(
    reason: str,
    env: dict[str, str],
    is_forbidden: bool,  # noqa: FBT001 a column of the table
) -> None:
    failure = f"{reason}; with CI=true no test is skipped for that"
    found = find_forbidden_skip(f"Skipped: {reason}", env)
    assert found == (failure if is_forbidden else None)


SKIPPED_TESTS = """
import pytest

def test_skipped_in_its_body():
    pytest.skip("no dash")

@pytest.mark.skipif(True, reason="no dash")
def test_skipped_by_its_mark():
    pass

@pytest.fixture
def dash():
    pytest.skip("no dash")

def test_skipped_by_a_fixture(dash):
    pass

def test_that_does_not_apply():
    pytest.skip("does not apply: no IPv6")

def test_that_is_expected_to_fail():
    pytest.xfail("no dash")
"""


def test_skipped_tests_fail_in_ci_unless_they_do_not_apply(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(SKIPPED_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", str(test)]
    env = {**os.environ, "CI": "true"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout.count("no dash; with CI=true no test is skipped for that") >= 3, ran.stdout
    assert "1 skipped, 1 xfailed" in ran.stdout.splitlines()[-1]


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_consumers_installer_that_cannot_install_a_stack_fails_in_ci_only(
    ci: str, code: int, machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["install", "mpich"])
    assert consumers.main() == code
    assert capsys.readouterr().err == "mpich: NOT INSTALLED: install the packages mpich\n"
