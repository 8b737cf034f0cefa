"""``framework init``: files that lint finds nothing in, for each stack and option."""

import itertools
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from cli.authoring.rules import LintOptions, lint
from cli.catalog import STACK_NAMES
from cli.exitcodes import CliError, ExitCode
from cli.start.gangfile import GangOptions, TemplateError, render_gang
from cli.start.init import InitOptions, read_example, write_gang
from cli.start.stacks import PLAIN, STACKS
from tests.cli.test_sessions import call

ALL = [None, *STACK_NAMES]
PINNED = f"my.registry:5000/a:1@sha256:{'0' * 64}"
Objects = dict[tuple[str, str], dict[str, Any]]


def write(tmp_path: Path, stack: str | None, name: str = "mine", **options: Any) -> Objects:
    gang = GangOptions(name=name, **options)
    assert write_gang(InitOptions(gang=gang, stack=stack, output=str(tmp_path))) == 0
    documents = [d for f in tmp_path.iterdir() for d in yaml.safe_load_all(f.read_text())]
    return {(body["kind"], body["metadata"]["name"]): body for body in documents}


def list_pods(objects: Objects, name: str = "mine") -> dict[str, tuple[int, dict[str, Any]]]:
    roles = objects["Framework", name]["spec"]["taskRoles"]
    return {r["name"]: (r["taskNumber"], r["task"]["pod"]["spec"]) for r in roles}


def test_names_of_stacks_are_those_of_the_option() -> None:
    assert tuple(STACKS) == STACK_NAMES


@pytest.mark.parametrize(
    ("stack", "gpus", "image"),
    [
        (stack, gpus, image)
        for stack, gpus, image in itertools.product(ALL, (0, 1, 8), (None, PINNED))
        if stack or not gpus
    ],
)
def test_new_gang_has_what_was_asked_for(
    stack: str | None, gpus: int, image: str | None, tmp_path: Path
) -> None:
    objects = write(tmp_path, stack, workers=7, gpus=gpus, image=image)
    framework = objects["Framework", "mine"]
    assert [*lint(framework, LintOptions(quota=["cpu", "memory"]))] == []
    pods = list_pods(objects)
    assert pods["worker"][0] == 7
    for role, (_, spec) in pods.items():
        (train,) = spec["containers"]
        assert train["image"] == (image or (STACKS[stack] if stack else PLAIN).image)
        given = train["resources"].get("limits", {}).get("nvidia.com/gpu")
        assert given == (str(gpus) if gpus and role == "worker" else None)
        variables = {each["name"]: each.get("value") for each in train.get("env", ())}
        if gpus:
            assert (
                variables.keys() & {"CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS", "DS_ACCELERATOR"}
                == set()
            )
        if gpus and stack in {"torch", "deepspeed", "horovod", "mpi"}:
            assert variables["FB_SLOTS"] == str(gpus)
        assert spec["serviceAccountName"] == "frameworkbarrier-mine"
        check_references(objects, spec)
    assert ("ServiceAccount", "frameworkbarrier-mine") in objects
    assert objects["Role", "frameworkbarrier-mine"]["rules"][0]["resourceNames"] == ["mine-attempt"]


def check_references(objects: Objects, spec: dict[str, Any]) -> None:
    """Each ConfigMap and Secret that a Pod mounts is in the files."""
    for volume in spec["volumes"]:
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in objects
        if "secret" in volume:
            assert ("Secret", volume["secret"]["secretName"]) in objects


@pytest.mark.parametrize("stack", ALL)
def test_new_gang_without_options_differs_from_its_example_in_names_rights_and_resources(
    stack: str | None, tmp_path: Path
) -> None:
    known = STACKS[stack] if stack else PLAIN
    example = list(yaml.safe_load_all(read_example(known)))
    objects = write(tmp_path, stack, known.name)
    assert objects["ConfigMap", f"{known.name}-app"]["data"] == example[0]["data"]
    ours, theirs = objects["Framework", known.name]["spec"], example[1]["spec"]
    for role in ours["taskRoles"]:
        spec = role["task"]["pod"]["spec"]
        spec["serviceAccountName"] = "frameworkbarrier"
        for container in (*spec["containers"], *spec["initContainers"]):
            container.pop("resources", None)
        for volume in spec["volumes"]:
            if "secret" in volume:
                volume["secret"]["secretName"] = known.secret
    assert ours == theirs


def test_horovod_starts_a_process_on_each_gpu(tmp_path: Path) -> None:
    objects = write(tmp_path, "horovod", workers=3, gpus=4)
    script = objects["ConfigMap", "mine-app"]["data"]["launch.sh"]
    assert "horovodrun --gloo -np 12 --min-np 1 --max-np 12 " in script


def test_new_key_is_private_and_new_each_time(tmp_path: Path) -> None:
    secrets = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        objects = write(folder, "mpi")
        secrets.append(objects["Secret", "mine-ssh"]["stringData"])
        assert stat.S_IMODE((folder / "mine-ssh.yaml").stat().st_mode) == 0o600
    assert secrets[0] != secrets[1]
    key = load_ssh_private_key(secrets[0]["id_ed25519"].encode(), None)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert secrets[0]["id_ed25519.pub"] == f"{public.decode()}\n"


def test_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    (tmp_path / "mine-ssh.yaml").write_text("yours")
    with pytest.raises(CliError, match=r"mine-ssh\.yaml: exists; choose another NAME") as caught:
        write(tmp_path, "mpi")
    assert caught.value.exit_code is ExitCode.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["mine-ssh.yaml"]
    options = InitOptions(
        gang=GangOptions(name="mine"), stack="mpi", output=str(tmp_path), force=True
    )
    assert write_gang(options) == 0
    assert "PRIVATE KEY" in (tmp_path / "mine-ssh.yaml").read_text()
    assert stat.S_IMODE((tmp_path / "mine-ssh.yaml").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "My_Gang"}, "NAME: 'My_Gang' is not a valid Framework name: use 1 to 63 "),
        ({"name": "../gang"}, "NAME: "),
        ({"name": "a" * 64}, "NAME: "),
        ({"name": "a", "gpus": 1}, r"--gpus: plain Python uses none; add --stack torch\|tf"),
        ({"name": "a", "image": "x\ny: z"}, "--image: "),
        ({"name": "a", "image": "two words"}, "--image: .* is not an image"),
        ({"name": "a", "image": "my.registry:5000/a@b"}, "--image: .* is not an image"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CliError, match=message) as caught:
        write_gang(InitOptions(gang=GangOptions(**options), output=str(tmp_path)))
    assert caught.value.exit_code is ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


def test_directory_with_a_line_break_in_its_name_is_refused(tmp_path: Path) -> None:
    # The file would have the second line as YAML.
    output = str(tmp_path / "a\nkind: Pod")
    with pytest.raises(CliError, match="--output: has a character that cannot be pri") as caught:
        write_gang(InitOptions(gang=GangOptions(name="mine"), output=output))
    assert caught.value.exit_code is ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


def test_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match=r"--output: .* cannot be written: "):
        write(tmp_path / "file", None)


def test_example_of_another_form_is_an_error() -> None:
    with pytest.raises(TemplateError, match="image"):
        render_gang(
            read_example(PLAIN).replace("image: python", "image: other"),
            PLAIN,
            GangOptions(name="mine", image="new"),
            [],
        )


@pytest.mark.slow
@pytest.mark.local
def test_new_gang_runs_with_the_command_that_init_prints(tmp_path: Path) -> None:
    code, output = call("init", "mine", "--workers", "2", "--output", str(tmp_path))
    assert code == ExitCode.SUCCEEDED, output
    (command,) = [line for line in output.splitlines() if line.startswith("here: ")]
    words = command.partition("(")[0].split()[2:]
    assert words == ["run", "--local", str(tmp_path / "mine.yaml")]
    code, output = call(*words)
    assert (code, "Framework mine: Succeeded" in output) == (ExitCode.SUCCEEDED, True), output


DOCS = Path(__file__).parents[3] / "docs" / "cli-write.md"


@pytest.mark.parametrize("name", ALL)
def test_versions_that_a_stack_needs_are_in_its_file_the_output_and_the_docs(
    name: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = STACKS[name] if name else PLAIN
    assert name in {None, "mpi"} or "or newer" in stack.needs
    write(tmp_path, name)
    header = [x for x in (tmp_path / "mine.yaml").read_text().splitlines() if x.startswith("# ")]
    assert any(f"Needs {stack.needs}:" in line for line in header)
    assert all(len(line) <= 100 for line in header if "framework run" not in line)
    assert f"({stack.needs} must be on the PATH)" in capsys.readouterr().out
    assert f"| {name or '(none)'} | {stack.needs} |" in DOCS.read_text()
