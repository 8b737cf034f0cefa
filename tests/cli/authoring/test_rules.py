"""`framework lint`: each rule finds its fault, names the field, and is silent once it is mended."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.authoring.injection import InjectionOptions, inject
from cli.authoring.rules import RULES, Surroundings, lint
from tests.cli.authoring.injected import build, get_spec
from tests.support.frameworkcrd import ROOT

SPEC = "spec.taskRoles[0].task.pod.spec"
METADATA = "spec.taskRoles[0].task.pod.metadata"
Change = Callable[[dict[str, Any]], None]


def build_injected() -> dict[str, Any]:
    return inject(build(), InjectionOptions())[-1]


def get_role(framework: dict[str, Any]) -> dict[str, Any]:
    role: dict[str, Any] = framework["spec"]["taskRoles"][0]
    return role


def set_restart_policy(framework: dict[str, Any]) -> None:
    get_spec([framework])["restartPolicy"] = "OnFailure"


def drop_account(framework: dict[str, Any]) -> None:
    del get_spec([framework])["serviceAccountName"]


def drop_token(framework: dict[str, Any]) -> None:
    barrier = get_spec([framework])["initContainers"][0]
    barrier["volumeMounts"] = [
        mount for mount in barrier["volumeMounts"] if mount["name"] != "frameworkbarrier-token"
    ]


def drop_mounts(framework: dict[str, Any]) -> None:
    del get_spec([framework])["containers"][0]["volumeMounts"]


def read_addresses(framework: dict[str, Any]) -> None:
    get_spec([framework])["containers"][0]["command"] = ["sh", "-c", "train $FB_WORKER_ADDRESSES"]


def want_slots(framework: dict[str, Any]) -> None:
    spec = get_spec([framework])
    spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 4}}
    spec["initContainers"][1]["env"].append({"name": "FB_FORMATS", "value": "openmpi,env"})


def forbid_restarts(framework: dict[str, Any]) -> None:
    get_spec([framework])["containers"][0]["env"] = [
        {"name": "PET_NNODES", "value": "2:4"},
        {"name": "PET_MAX_RESTARTS", "value": "0"},
    ]


def fix_run_id(framework: dict[str, Any]) -> None:
    get_spec([framework])["containers"][0]["args"] = ["--rdzv-id=mine"]


def unmake_native(framework: dict[str, Any]) -> None:
    del get_spec([framework])["initContainers"][1]["restartPolicy"]


def move_sidecar(framework: dict[str, Any]) -> None:
    spec = get_spec([framework])
    sidecar = spec["initContainers"].pop()
    del sidecar["restartPolicy"]
    sidecar["env"] = []
    spec["containers"].append(sidecar)


def label_as_controller(framework: dict[str, Any]) -> None:
    get_role(framework)["task"]["pod"]["metadata"] = {
        "labels": {"app": "train", "FC_FRAMEWORK_NAME": "other"},
        "annotations": {"frameworkbarrier.io/on-change": "restart"},
    }


def misspell_annotation(framework: dict[str, Any]) -> None:
    get_role(framework)["task"]["pod"]["metadata"] = {
        "annotations": {"frameworkbarrier.io/on-chnage": "restart"},
    }


def add_drain(framework: dict[str, Any]) -> None:
    get_role(framework)["drain"] = {"timeoutSec": 5}
    get_spec([framework])["initContainers"].pop()


def misspell_agents(framework: dict[str, Any]) -> None:
    spec = get_spec([framework])
    spec["containers"][0]["args"] = [". /mnt/frameworkbarrier/injector.sh && train"]
    spec["initContainer"] = spec.pop("initContainers")


def misspell_role_field(framework: dict[str, Any]) -> None:
    get_role(framework)["tasknumber"] = 2


def misspell_spec_field(framework: dict[str, Any]) -> None:
    framework["spec"]["retryPolicy"] = {"maxRetries": 2}


def misspell_image(framework: dict[str, Any]) -> None:
    container = get_spec([framework])["containers"][0]
    container["imagee"] = container.pop("image")


def drop_name(framework: dict[str, Any]) -> None:
    del get_spec([framework])["containers"][0]["name"]


def command_a_bool(framework: dict[str, Any]) -> None:
    get_spec([framework])["containers"][0]["command"] = ["sh", True]


def give_args_as_text(framework: dict[str, Any]) -> None:
    get_spec([framework])["containers"][0]["args"] = "-c train"


FAULTS: list[tuple[str, Change, str]] = [
    ("pod-template", misspell_image, f"{SPEC}.containers[0].image"),
    ("pod-template", drop_name, f"{SPEC}.containers[0].name"),
    ("pod-template", command_a_bool, f"{SPEC}.containers[0].command[1]"),
    ("pod-template", give_args_as_text, f"{SPEC}.containers[0].args"),
    ("missing-agent", misspell_agents, f"{SPEC}.containers[0]"),
    ("unknown-field", misspell_role_field, "spec.taskRoles[0].tasknumber"),
    ("unknown-field", misspell_spec_field, "spec.retryPolicy.maxRetries"),
    ("reserved-key", label_as_controller, f"{METADATA}.labels[FC_FRAMEWORK_NAME]"),
    ("reserved-key", misspell_annotation, f"{METADATA}.annotations[frameworkbarrier.io/on-chnage]"),
    ("restart-policy", set_restart_policy, f"{SPEC}.restartPolicy"),
    ("service-account", drop_account, f"{SPEC}.serviceAccountName"),
    ("service-account", drop_token, f"{SPEC}.initContainers[0].volumeMounts"),
    ("shared-volume", drop_mounts, f"{SPEC}.containers"),
    ("missing-port", read_addresses, f"{SPEC}.containers[0].env"),
    ("missing-slots", want_slots, f"{SPEC}.initContainers[1].env"),
    ("elastic-restarts", forbid_restarts, f"{SPEC}.containers[0].env"),
    ("fixed-rdzv-id", fix_run_id, f"{SPEC}.containers[0]"),
    ("endless-sidecar", unmake_native, f"{SPEC}.initContainers[1].restartPolicy"),
    ("endless-sidecar", move_sidecar, f"{SPEC}.containers[1].env"),
    ("unheard-drain", add_drain, "spec.taskRoles[0].drain"),
]


@pytest.mark.parametrize(
    ("rule", "change", "path"), FAULTS, ids=[change.__name__ for _, change, _ in FAULTS]
)
def test_lint_fault_is_found_where_it_is(rule: str, change: Change, path: str) -> None:
    framework = build_injected()
    assert lint(framework, Surroundings()) == []

    change(framework)
    found = lint(framework, Surroundings())

    assert [(finding.rule, finding.path) for finding in found] == [(rule, path)]
    assert found[0].message
    assert found[0].fix


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (read_addresses, {"name": "FB_WORKER_PORT", "value": "2222"}),
        (want_slots, {"name": "FB_SLOTS", "value": "4"}),
        (forbid_restarts, {"name": "PET_MAX_RESTARTS", "value": "3"}),
    ],
)
def test_lint_fault_is_gone_with_the_fix_it_names(change: Change, setting: dict[str, str]) -> None:
    framework = build_injected()
    change(framework)
    spec = get_spec([framework])
    for container in [*spec["initContainers"], *spec["containers"]]:
        others = [v for v in container.get("env", []) if v["name"] != setting["name"]]
        container["env"] = [*others, setting]

    assert lint(framework, Surroundings()) == []


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("schedulingGates", [{"name": "kueue.x-k8s.io/admission"}], f"{SPEC}.schedulingGates"),
        ("hostUsers", False, f"{SPEC}.hostUsers"),
        (
            "securityContext",
            {"seccompProfile": {"type": "RuntimeDefault"}},
            f"{SPEC}.securityContext.seccompProfile",
        ),
        (
            "volumes",
            [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}],
            f"{SPEC}.volumes[0].ephemeral",
        ),
    ],
)
def test_lint_for_the_original_names_what_it_drops(field: str, value: Any, path: str) -> None:
    framework = build()
    get_spec([framework])[field] = value

    found = lint(framework, Surroundings(for_original=True))

    assert [(finding.rule, finding.path) for finding in found] == [("dropped-field", path)]
    assert lint(framework, Surroundings()) == []


def test_lint_native_sidecar_for_the_original_is_an_error() -> None:
    paths = [f.path for f in lint(build_injected(), Surroundings(for_original=True))]

    assert f"{SPEC}.initContainers[1].restartPolicy" in paths


def test_lint_under_a_quota_every_container_needs_its_requests() -> None:
    framework = build_injected()

    found = lint(framework, Surroundings(quota=["cpu", "memory"]))

    # The agents bring theirs.
    assert [(finding.rule, finding.path) for finding in found] == [
        ("missing-requests", f"{SPEC}.containers[0].resources.requests")
    ]
    get_spec([framework])["containers"][0]["resources"] = {"limits": {"cpu": 1, "memory": "1Gi"}}
    assert lint(framework, Surroundings(quota=["cpu", "memory"])) == []


def test_lint_shapes_that_validation_judges_do_not_stop_it() -> None:
    framework = build()
    get_spec([framework]).update(containers="none", initContainers=[None], volumes={})

    assert lint(framework, Surroundings(for_original=True, quota=["cpu"])) == []


@pytest.mark.parametrize(
    "container",
    [
        # What the rendezvous agent writes and sets has the ports in it.
        {"command": ["sh", "-c", ". /mnt/frameworkbarrier/current/env.sh; t $FB_WORKER_ADDRESSES"]},
        {
            "command": ["python3", "/mnt/frameworkbarrier/agent/rendezvous.pyz", "run", "--"],
            "args": ["sh", "-c", "t $FB_WORKER_ADDRESSES"],
        },
        {
            "command": ["sh", "-c", ". injector.sh; t $FB_WORKER_ADDRESSES"],
            "envFrom": [{"configMapRef": {"name": "ports"}}],
        },
    ],
)
def test_lint_port_that_comes_from_elsewhere_is_not_missed(container: dict[str, Any]) -> None:
    framework = build_injected()
    get_spec([framework])["containers"][0] |= container

    assert "missing-port" not in {found.rule for found in lint(framework, Surroundings())}


def test_lint_elastic_settings_in_two_containers_are_seen_together() -> None:
    framework = build_injected()
    spec = get_spec([framework])
    spec["initContainers"][1]["env"].append({"name": "FB_TORCH_MODE", "value": "elastic"})
    spec["initContainers"][1]["env"].append({"name": "FB_TORCH_MAX_RESTARTS", "value": "0"})

    (found,) = lint(framework, Surroundings())

    assert (found.rule, found.path) == ("elastic-restarts", f"{SPEC}.initContainers[1].env")


def test_lint_for_the_original_finds_the_fields_it_does_not_know() -> None:
    framework = build(minMemberCount=1, drain={"timeoutSec": 1}, absentTaskIndices=[1])
    framework["spec"]["completedPodPolicy"] = "Retain"

    found = lint(framework, Surroundings(for_original=True))

    assert {item.path for item in found if item.rule == "dropped-field"} == {
        "spec.completedPodPolicy",
        "spec.taskRoles[0].absentTaskIndices",
        "spec.taskRoles[0].drain",
        "spec.taskRoles[0].minMemberCount",
    }


def test_lint_image_misspelt_offers_the_word_that_stands_there() -> None:
    framework = build()
    misspell_image(framework)

    (found,) = lint(framework, Surroundings())

    assert found.fix == "write `image` for `imagee`"


def test_lint_command_exit_codes_and_json(tmp_path: Path) -> None:
    faulty = build_injected()
    set_restart_policy(faulty)
    good_file, bad_file = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good_file.write_text(yaml.safe_dump(build_injected()))
    bad_file.write_text(yaml.safe_dump(faulty))

    def run(*arguments: str | Path) -> tuple[int, str]:
        command = [sys.executable, "-m", "cli.main", "lint", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert run(good_file) == (0, "nothing found\n")
    code, text = run(good_file, bad_file)
    assert code == 1
    assert text.startswith(f"error: {bad_file}: {SPEC}.restartPolicy: is OnFailure")
    code, text = run("--json", bad_file)
    (item,) = json.loads(text)
    assert (code, item["rule"]) == (1, "restart-policy")
    assert (item["file"], item["framework"]) == (str(bad_file), "job")


def test_docs_list_every_rule() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    assert {rule for rule, _, _ in FAULTS} <= documented

    assert {rule.__name__.replace("_", "-") for rule in RULES} <= documented


def test_lint_field_misspelt_offers_the_nearest_one() -> None:
    framework = build()
    misspell_role_field(framework)

    (found,) = lint(framework, Surroundings())

    assert found.fix == "write `taskNumber`"
