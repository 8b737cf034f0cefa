"""`run --local` refuses at once what can never start on a local cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cli.exitcodes import ExitCode
from cli.files.manifests import load_manifests
from cli.local.rules import count_gpus, find_local_faults, warn_of_few_gpus
from cli.main import main
from tests.support.builders import build_framework_wire, build_role_wire, build_submission

GPU = {"resources": {"limits": {"nvidia.com/gpu": 2}}}


def build_gang(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    listed = [
        {"name": f"c{number}", "image": "busybox", **c} for number, c in enumerate(containers)
    ]
    pod = {"spec": {"restartPolicy": "Never", "containers": listed, **spec}}
    return build_framework_wire(build_role_wire(task={"pod": pod}))


@pytest.mark.parametrize(
    ("container", "gpus", "found"),
    [
        ({"command": ["true"]}, 0, ""),
        ({"image": "x/framework-barrier:1"}, 0, ""),
        ({}, 0, 'image "busybox" has no entry point known here'),
        ({"args": ["x"]}, 0, "give the container a `command`"),
        ({"image": "framework-barier"}, 0, "`frameworkbarrier/framework-barrier`"),
        ({"command": ["true"], **GPU}, 0, "2 nvidia.com/gpu, and the local cluster offers 0"),
        ({"command": ["true"], **GPU}, 1, "--gpus 2"),
        ({"command": ["true"], **GPU}, 2, ""),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_can_never_start_is_found(container: dict[str, Any], gpus: int, found: str) -> None:
    faults = list(find_local_faults(build_gang(container), {"nvidia.com/gpu": gpus}))
    texts = [f"{f.path} {f.message}; {f.fix}" for f in faults]
    assert len(texts) == bool(found)
    assert found in "".join(texts)


def build_roles(*roles: tuple[int, int]) -> dict[str, Any]:
    """A Framework whose roles have so many Tasks with so many GPUs each."""
    return build_framework_wire(
        *(
            build_role_wire(
                f"r{number}",
                tasks,
                task={
                    "pod": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [
                                {
                                    "name": "main",
                                    "image": "busybox",
                                    "command": ["true"],
                                    "resources": {"limits": {"nvidia.com/gpu": gpus}},
                                }
                            ],
                        }
                    }
                },
            )
            for number, (tasks, gpus) in enumerate(roles)
        )
    )


@pytest.mark.parametrize(
    ("roles", "remedy"),
    [
        ([(2, 1)], "--gpus 2 (for all Tasks together), or"),
        ([(1, 4)], "--gpus 4, or"),
        ([(1, 1), (3, 2)], "--gpus 7 (for all Tasks together), or"),
        ([(0, 1)], "--gpus 1, or"),
    ],
    ids=["gang", "one", "roles", "none"],
)
def test_remedy_offers_the_gpus_that_all_tasks_need_together(
    roles: list[tuple[int, int]], remedy: str
) -> None:
    for fault in find_local_faults(build_roles(*roles), {}):
        assert remedy in fault.fix


def test_gang_with_too_few_gpus_for_all_of_its_tasks_is_a_warning() -> None:
    framework = build_roles((2, 1))
    assert list(find_local_faults(framework, {"nvidia.com/gpu": 1})) == []
    warning = warn_of_few_gpus(1, count_gpus(framework))
    assert warning is not None
    assert "ask for 2 nvidia.com/gpu, and the local cluster offers 1" in warning
    assert warning.endswith("--gpus 2")
    assert warn_of_few_gpus(2, count_gpus(framework)) is None


def test_other_extended_resources_are_never_offered() -> None:
    wanted = {"command": ["true"], "resources": {"requests": {"rdma/hca": 1, "memory": "900Gi"}}}
    (fault,) = find_local_faults(build_gang(wanted), {"nvidia.com/gpu": 8})
    assert "1 rdma/hca" in fault.message
    assert "--gpus" not in fault.fix


@pytest.mark.parametrize("value", [5, True, "x", ["a"], [None], {"limits": 5}, {"limits": ["a"]}])
@pytest.mark.parametrize("field", ["command", "resources", "restartPolicy", "name"])
def test_a_container_of_an_unexpected_type_is_skipped(field: str, value: object) -> None:
    framework = build_gang({"command": ["true"], field: value})
    assert list(find_local_faults(framework, {})) == []


@pytest.mark.parametrize("value", [5, None, "x", ["a"], {"a": 1}, [{"command": ["true"]}]])
@pytest.mark.parametrize("field", ["initContainers", "containers"])
def test_containers_of_an_unexpected_type_are_skipped(field: str, value: object) -> None:
    assert list(find_local_faults(build_gang(**{field: value}), {})) == []


@pytest.mark.parametrize("quantity", ["1e999999999", "1e5000", "9" * 100_000, "1e" + "9" * 30])
def test_absurd_quantity_is_a_shortage(quantity: str) -> None:
    wanted = {"command": ["true"], "resources": {"limits": {"nvidia.com/gpu": quantity}}}
    (fault,) = find_local_faults(build_gang(wanted), {"nvidia.com/gpu": 8})
    assert fault.message.startswith(f"a Pod asks for {2**63 - 1} nvidia.com/gpu")


def run(tmp_path: Path, framework: dict[str, Any], *options: str) -> tuple[int, str]:
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump(framework))
    result = CliRunner().invoke(main, ["run", *options, str(file)], prog_name="framework")
    return result.exit_code, result.output


def test_run_ends_with_2_before_a_cluster_starts(tmp_path: Path) -> None:
    state = tmp_path / "state"
    framework = {**build_gang({}, GPU), "metadata": {"name": "gang"}}
    code, output = run(tmp_path, framework, "--local", "--directory", str(state))
    assert code == ExitCode.USAGE
    assert [line.split(": ")[2].rpartition(".")[2] for line in output.splitlines()] == [
        "command",
        "command",
        "containers",
    ]
    assert not state.exists()


def test_gpus_without_local_is_bad_usage(tmp_path: Path) -> None:
    code, output = run(tmp_path, build_submission("gang"), "--gpus", "1")
    assert code == ExitCode.USAGE
    assert "--gpus is for --local" in output


def test_local_run_makes_the_namespaces_of_its_objects(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump(build_submission("gang", build_role_wire())))
    loaded = load_manifests([str(file)], namespace="team", default_namespace="x", is_local=True)
    assert [(m.resource.kind, m.name) for m in loaded.supporting] == [("Namespace", "team")]
    remote = load_manifests([str(file)], namespace="team", default_namespace="x")
    assert remote.supporting == ()
    default = load_manifests(
        [str(file)], namespace=None, default_namespace="default", is_local=True
    )
    assert default.supporting == ()
