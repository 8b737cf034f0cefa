"""`framework lint`: each rule finds its fault, names the field, and is silent once it is mended."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cli.authoring.injection import InjectionOptions, inject
from cli.authoring.rules import RULES, LintOptions, lint
from cli.main import main
from tests.cli.authoring.injected import DROPPED, SPEC, Change, build, edit, get_spec
from tests.support.servers.frameworkcrd import ROOT

METADATA = "spec.taskRoles[0].task.pod.metadata"


def build_injected() -> dict[str, Any]:
    return inject(build(), InjectionOptions())[-1]


def chain(*changes: Change) -> Change:
    """Build the change that makes all of these in their order."""

    def change(framework: dict[str, Any]) -> None:
        for each in changes:
            each(framework)

    return change


def add_env(place: str, **variables: str) -> Change:
    """Build the change that adds variables to a container."""

    def change(framework: dict[str, Any]) -> None:
        env = get_spec([framework])["initContainers" if place == "sidecar" else "containers"][-1]
        env.setdefault("env", []).extend({"name": k, "value": v} for k, v in variables.items())

    return change


def drop_token(framework: dict[str, Any]) -> None:
    barrier = get_spec([framework])["initContainers"][0]
    barrier["volumeMounts"] = [
        mount for mount in barrier["volumeMounts"] if mount["name"] != "frameworkbarrier-token"
    ]


def move_sidecar(framework: dict[str, Any]) -> None:
    spec = get_spec([framework])
    sidecar = spec["initContainers"].pop()
    del sidecar["restartPolicy"]
    sidecar["env"] = []
    spec["containers"].append(sidecar)


def retry(**policy: Any) -> Change:
    def change(framework: dict[str, Any]) -> None:
        framework["spec"]["taskRoles"][0]["task"]["retryPolicy"] = policy

    return change


def drop_sidecar(framework: dict[str, Any]) -> None:
    get_spec([framework])["initContainers"].pop()


def misspell_agents(framework: dict[str, Any]) -> None:
    spec = get_spec([framework])
    spec["initContainer"] = spec.pop("initContainers")


OWN_LABELS = {"app": "train", "FC_FRAMEWORK_NAME": "other"}
read_addresses = edit("main", command=["sh", "-c", "train $FB_WORKER_ADDRESSES"])
want_slots = chain(
    edit("main", resources={"limits": {"nvidia.com/gpu": 4}}),
    add_env("sidecar", FB_FORMATS="openmpi,env"),
)
forbid_restarts = add_env("main", PET_NNODES="2:4", PET_MAX_RESTARTS="0")
misspell_image = edit("main", image=DROPPED, imagee="app:1")
misspell_number = edit("role", tasknumber=2)
misspell_recovery = edit("role", recovery={"inplace": {"maxRestarts": 3, "withinSeconds": 600}})
misspell_leaves = chain(
    edit("role", recovery={"leaveNodes": {"timeoutSeconds": 60, "maxleaves": 5}}),
    add_env("sidecar", FB_ON_LEAVING="wait"),
)
misspell_drain = edit("role", drain={"timeoutSec": 5, "timeout": 5})
set_restart_policy = edit("spec", restartPolicy="OnFailure")
# Rule, path, change.
MAIN, SIDECAR = f"{SPEC}.containers[0]", f"{SPEC}.initContainers[1]"
ROLE = "spec.taskRoles[0]"
misspell = chain(edit("main", args=[". /mnt/frameworkbarrier/injector.sh"]), misspell_agents)
ON_CHANGE, MISSPELT = "frameworkbarrier.io/on-change", "frameworkbarrier.io/on-chnage"
annotate = edit("pod", metadata={"annotations": {MISSPELT: "restart"}})
label = edit("pod", metadata={"labels": OWN_LABELS, "annotations": {ON_CHANGE: "restart"}})
IN_PLACE = {"inPlace": {"maxRestarts": 3, "withinSeconds": 600}}
drain_alone = chain(edit("role", drain={"timeoutSec": 5}), drop_sidecar)
AVOID_NODES = {"avoidNodes": {"failures": 3}}
avoid_nodes = edit("role", recovery=AVOID_NODES)
RETRIED = {"maxRetryCount": -1}
avoid_once = chain(avoid_nodes, retry(maxRetryCount=2))
avoid_fixed = chain(avoid_nodes, retry(**RETRIED), edit("spec", nodeName="n1"))
avoid_many = chain(avoid_nodes, retry(**RETRIED), edit("role", taskNumber=8000))
misspell_avoid = chain(
    edit("role", recovery={"avoidNodes": {"failures": 3, "maxnodes": 3}}), retry(**RETRIED)
)
LEAVE_NODES = {"leaveNodes": {"timeoutSeconds": 60}}
leave_alone = chain(edit("role", recovery=LEAVE_NODES), drop_sidecar)
FAULTS: list[tuple[str, str, Change]] = [
    ("pod-template", f"{MAIN}.image", misspell_image),
    ("pod-template", f"{MAIN}.name", edit("main", name=DROPPED)),
    ("pod-template", f"{MAIN}.command[1]", edit("main", command=["sh", True])),
    ("pod-template", f"{MAIN}.args", edit("main", args="-c train")),
    ("missing-agent", MAIN, misspell),
    ("unknown-field", f"{ROLE}.tasknumber", misspell_number),
    ("unknown-field", f"{ROLE}.recovery.inplace", misspell_recovery),
    ("unknown-field", f"{ROLE}.recovery.leaveNodes.maxleaves", misspell_leaves),
    ("unknown-field", f"{ROLE}.recovery.avoidNodes.maxnodes", misspell_avoid),
    ("unknown-field", f"{ROLE}.drain.timeout", misspell_drain),
    (
        "unknown-field",
        "spec.retryPolicy.maxRetries",
        edit("framework", retryPolicy={"maxRetries": 2}),
    ),
    ("reserved-key", f"{METADATA}.labels[FC_FRAMEWORK_NAME]", label),
    ("reserved-key", f"{METADATA}.annotations[{MISSPELT}]", annotate),
    ("restart-policy", f"{SPEC}.restartPolicy", set_restart_policy),
    ("service-account", f"{SPEC}.serviceAccountName", edit("spec", serviceAccountName=DROPPED)),
    ("service-account", f"{SPEC}.initContainers[0].volumeMounts", drop_token),
    ("shared-volume", f"{SPEC}.containers", edit("main", volumeMounts=DROPPED)),
    ("missing-port", f"{MAIN}.env", read_addresses),
    ("missing-slots", f"{SIDECAR}.env", want_slots),
    ("elastic-restarts", f"{MAIN}.env", forbid_restarts),
    ("fixed-rdzv-id", MAIN, edit("main", args=["--rdzv-id=mine"])),
    ("endless-sidecar", f"{SIDECAR}.restartPolicy", edit("sidecar", restartPolicy=DROPPED)),
    ("endless-sidecar", f"{SPEC}.containers[1].env", move_sidecar),
    ("unheard-drain", f"{ROLE}.drain", drain_alone),
    ("unheard-leaving", f"{ROLE}.recovery.leaveNodes", leave_alone),
    (
        "unheard-leaving",
        f"{ROLE}.recovery.leaveNodes.timeoutSeconds",
        edit("role", recovery={"leaveNodes": {"timeoutSeconds": 60}}),
    ),
    ("unused-avoidance", f"{ROLE}.recovery.avoidNodes", avoid_nodes),
    ("unused-avoidance", f"{ROLE}.recovery.avoidNodes", avoid_once),
    ("unused-avoidance", f"{ROLE}.recovery.avoidNodes", avoid_fixed),
    ("unused-avoidance", f"{ROLE}.recovery.avoidNodes", avoid_many),
    ("unwrapped-recovery", f"{ROLE}.recovery.inPlace", edit("role", recovery=IN_PLACE)),
]


@pytest.mark.parametrize(
    ("rule", "path", "change"), FAULTS, ids=[f"{rule} {path}" for rule, path, _ in FAULTS]
)
def test_lint_fault_is_found_where_it_is(rule: str, path: str, change: Change) -> None:
    framework = build_injected()
    assert lint(framework, LintOptions()) == []
    change(framework)
    found = lint(framework, LintOptions())
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
    assert lint(framework, LintOptions()) == []


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
    found = lint(framework, LintOptions(for_original=True))
    assert [(finding.rule, finding.path) for finding in found] == [("dropped-field", path)]
    assert lint(framework, LintOptions()) == []


def test_lint_native_sidecar_for_the_original_is_an_error() -> None:
    paths = [f.path for f in lint(build_injected(), LintOptions(for_original=True))]
    assert f"{SPEC}.initContainers[1].restartPolicy" in paths


def test_lint_under_a_quota_every_container_needs_its_requests() -> None:
    framework = build_injected()
    found = lint(framework, LintOptions(quota=["cpu", "memory"]))
    # The agents bring theirs.
    assert [(finding.rule, finding.path) for finding in found] == [
        ("missing-requests", f"{SPEC}.containers[0].resources.requests")
    ]
    get_spec([framework])["containers"][0]["resources"] = {"limits": {"cpu": 1, "memory": "1Gi"}}
    assert lint(framework, LintOptions(quota=["cpu", "memory"])) == []


def test_lint_shapes_that_validation_judges_do_not_stop_it() -> None:
    framework = build()
    get_spec([framework]).update(containers="none", initContainers=[None], volumes={})
    assert lint(framework, LintOptions(for_original=True, quota=["cpu"])) == []


@pytest.mark.parametrize(
    "container",
    [
        # The files and variables of the rendezvous agent have the ports in them.
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
    assert "missing-port" not in {found.rule for found in lint(framework, LintOptions())}


def test_lint_elastic_settings_in_two_containers_are_seen_together() -> None:
    framework = build_injected()
    spec = get_spec([framework])
    spec["initContainers"][1]["env"].append({"name": "FB_TORCH_MODE", "value": "elastic"})
    spec["initContainers"][1]["env"].append({"name": "FB_TORCH_MAX_RESTARTS", "value": "0"})
    (found,) = lint(framework, LintOptions())
    assert (found.rule, found.path) == ("elastic-restarts", f"{SPEC}.initContainers[1].env")


def test_lint_for_the_original_finds_the_fields_it_does_not_know() -> None:
    framework = build(minMemberCount=1, drain={"timeoutSec": 1}, absentTaskIndices=[1])
    framework["spec"]["completedPodPolicy"] = "Retain"
    framework["spec"]["taskRoles"][0]["completedPodPolicy"] = "Delete"
    lifetime = {"suspend": False, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 9}
    framework["spec"].update(lifetime)
    found = lint(framework, LintOptions(for_original=True))
    assert {item.path for item in found if item.rule == "dropped-field"} == {
        "spec.activeDeadlineSeconds",
        "spec.completedPodPolicy",
        "spec.suspend",
        "spec.taskRoles[0].absentTaskIndices",
        "spec.taskRoles[0].completedPodPolicy",
        "spec.taskRoles[0].drain",
        "spec.taskRoles[0].minMemberCount",
        "spec.ttlSecondsAfterFinished",
    }


@pytest.mark.parametrize(
    ("change", "fix"),
    [(misspell_image, "write `image` for `imagee`"), (misspell_number, "write `taskNumber`")],
)
def test_lint_field_misspelt_offers_the_nearest_one(change: Change, fix: str) -> None:
    framework = build()
    change(framework)
    (found,) = lint(framework, LintOptions())
    assert found.fix == fix


def test_lint_command_exit_codes_and_json(tmp_path: Path) -> None:
    faulty = build_injected()
    set_restart_policy(faulty)
    good_file, bad_file = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good_file.write_text(yaml.safe_dump(build_injected()))
    bad_file.write_text(yaml.safe_dump(faulty))

    def run(*arguments: str | Path) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["lint", *map(str, arguments)])
        return done.exit_code, done.stdout

    assert run(good_file) == (0, "nothing found\n")
    code, text = run(good_file, bad_file)
    assert code == 1
    assert text.startswith(f"error: {bad_file}: {SPEC}.restartPolicy: is OnFailure")
    code, text = run("--json", bad_file)
    (item,) = json.loads(text)
    assert (code, item["rule"]) == (1, "restart-policy")
    assert (item["file"], item["framework"]) == (str(bad_file), "job")


def test_docs_list_every_rule() -> None:
    text = (ROOT / "docs" / "cli-write.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    assert {rule for rule, _, _ in FAULTS} <= documented
    assert {rule.__name__.replace("_", "-") for rule in RULES} <= documented


@pytest.mark.parametrize(("has_number", "severity"), [(False, "error"), (True, "warning")])
def test_unknown_field_is_an_error_if_a_needed_one_is_meant_and_missing(
    *, has_number: bool, severity: str
) -> None:
    framework = build()
    misspell_number(framework)
    if not has_number:
        framework["spec"]["taskRoles"][0].pop("taskNumber", None)
    (found,) = (f for f in lint(framework, LintOptions()) if f.rule == "unknown-field")
    assert (str(found.severity), found.fix) == (severity, "write `taskNumber`")
