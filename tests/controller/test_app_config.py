"""What a user of ``framework-controller`` gets for a bad configuration."""

from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from controller.app import main
from controller.config.config_file import KIND_NAMES
from controller.kinds.reconciler import KINDS
from framework.kinds.tfjob import types as tfjob
from framework.kinds.trainingjob import types as trainingjob


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def call(config: Path, *arguments: str) -> Result:
    # The kubeconfig does not exist: a good config file fails there, before any connection.
    kubeconfig = ["--kubeconfig", str(config.parent / "absent")]
    return CliRunner().invoke(main, ["--config", str(config), *kubeconfig, *arguments])


def test_controller_with_bad_values_names_each_and_exits_2(config: Path) -> None:
    config.write_text("workerNumber: 0\nkubeClientQps: fast\n")
    result = call(config)
    assert result.exit_code == 2
    assert [line.partition("config: ")[2] for line in result.stderr.splitlines()] == [
        (
            "kubeClientQps: must be a number, not string 'fast'; "
            "give a number of (0, 10000], or unlimited"
        ),
        "workerNumber: 0 is out of range; give a whole number of [1, 2147483647]",
    ]


def test_controller_with_an_unknown_key_only_warns(config: Path) -> None:
    config.write_text("workerNumbr: 3\n")
    result = call(config)
    assert "WARNING" in result.stderr
    assert "workerNumbr: unknown key" in result.stderr
    assert "absent" in result.stderr.splitlines()[-1]


def test_controller_with_an_unknown_key_and_strict_config_exits_2(config: Path) -> None:
    config.write_text("workerNumbr: 3\n")
    result = call(config, "--strict-config")
    assert result.exit_code == 2
    assert "config: workerNumbr: unknown key" in result.stderr
    assert "absent" not in result.stderr


def test_controller_with_a_missing_config_file_exits_2(config: Path) -> None:
    result = call(config)
    assert result.exit_code == 2
    assert "give a readable file with --config" in result.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "source"),
    [
        ("", ["--kinds", "tfjob,mpijob"], "--kinds: 'mpijob'"),
        ("kinds: [tfjob, mpijob]\n", [], "config: kinds: 'mpijob'"),
        (
            "kinds: tfjob\n",
            [],
            "config: kinds: must be an array, not string 'tfjob'; give a list of strings",
        ),
    ],
    ids=["option", "config file", "no list"],
)
def test_controller_with_an_unknown_kind_names_those_there_are_and_exits_2(
    config: Path, text: str, arguments: list[str], source: str
) -> None:
    config.write_text(text)
    result = call(config, *arguments)
    assert result.exit_code == 2
    assert source in result.stderr
    assert "list of strings" in source or "give some of tfjob, trainingjob" in result.stderr


def test_controller_with_known_kinds_accepts_them(config: Path) -> None:
    config.write_text("kinds: [trainingjob]\n")
    result = call(config, "--kinds", "tfjob, trainingjob")
    assert "absent" in result.stderr.splitlines()[-1]


def test_each_kind_that_can_be_configured_can_be_run() -> None:
    assert set(KINDS) == set(KIND_NAMES)


@pytest.mark.parametrize("kind", [tfjob, trainingjob], ids=["tfjob", "trainingjob"])
def test_resource_of_a_kind_has_the_api_version_of_its_types(kind: ModuleType) -> None:
    resource = KINDS[kind.KIND.lower()].resource
    assert (resource.api_version, resource.kind) == (kind.API_VERSION, kind.KIND)
