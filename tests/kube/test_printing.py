"""``framework get`` prints what the real kubectl prints, on a real API server."""

import asyncio
import re
import subprocess
import sys

import pytest
import yaml

from cli.printing.forms import Form
from cli.printing.output import Printer, parse_output
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, Object
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.commandline import call_on
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.rights import run_kubectl
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kube

TEMPLATES = [
    "{.items[*].metadata.name}",
    '{range .items[*]}{.metadata.name}{"\\t"}{.spec.taskRoles[0].taskNumber}{"\\n"}{end}',
    '{range .items[*]}{range .spec.taskRoles[*]}[{.name}]{end}{"\\n"}{end}done',
    '{.items[?(@.metadata.name=="gang")].spec}',
    "{.items[?(@.metadata.name!='gang')].metadata.name}",
    "{.items[?(@.metadata.labels.team)].metadata.name}",
    "{.items[?(@.status.attemptStatus.id>=2)].metadata.name}",
    '{.items[?(@.status.state=="AttemptRunning")].status.conditions[?(@.type=="Blocked")].message}',
    r"{.items[0].metadata.labels.example\.org/tier}",
    r"{.items[0].metadata.labels['example\.org/tier']}",
    "{.items[*]['metadata.name','kind']}",
    "{.items[0].spec.taskRoles[-1].name} {.items[0].spec.taskRoles[0:2].name}",
    "{.items[0].spec.taskRoles[0,1].name}",
    "{.items[*].spec.taskRoles[*].task.pod.spec.containers[*].image}",
    "{..taskNumber}",
    "{.items[0].metadata.labels}",
    "{.kind} {.items[0].missing.deeper}|{$.apiVersion}",
    '{.items[0].spec.description}{"\\n"}{"a \\"b\\""}',
    "{.items[0].spec.taskRoles[0].task.pod.spec.terminationGracePeriodSeconds}",
    "no action",
]
COLUMNS = "NAME:.metadata.name,ROLES:.spec.taskRoles[*].name,TIER:{.metadata.labels},X:.nothing"
FORMS = [
    (),
    ("-o", "wide"),
    ("-A", "--no-headers"),
    ("--no-headers",),
    ("-l", "team=a"),
    ("--field-selector", "metadata.name=other"),
    ("--sort-by=.metadata.creationTimestamp",),
    ("--sort-by=.status.attemptStatus.id",),
    ("--sort-by={.spec.taskRoles[0].name}",),
    ("-o", "name"),
    ("-o", "json"),
    ("gang", "-o", "json"),
    ("gang", "other", "-o", "name"),
    ("framework/gang",),
    ("-o", f"custom-columns={COLUMNS}"),
    ("-o", f"custom-columns={COLUMNS}", "--no-headers"),
    ("-l", "team=none", "-o", "json"),
    ("-l", "team=none", "-o", "custom-columns=A:.kind"),
]
AGE = re.compile(r"\b(?:\d+m|(?:\d+m)?\d+s)(?: *$| +(?=Start))")
STATUS: Object = {
    "state": "AttemptRunning",
    "readyTasks": "1/2",
    "conditions": [
        {"type": "Blocked", "status": "False", "message": "<a> & b"},
        {"type": "Completed", "status": "False", "reason": "InProgress"},
    ],
    "attemptStatus": {"id": 2, "taskRoleStatuses": []},
}


def print_ours(access: Access, *arguments: str) -> str:
    done = call_on(access, *arguments)
    assert done.code == 0, done.err
    return done.out


@pytest.fixture
async def gangs(framework_crd: None, kube: KubeClient, namespace: str) -> str:
    """A namespace with two Frameworks that no controller changes."""
    labels = {"team": "a", "example.org/tier": "gold"}
    for name, roles in (("gang", ("ps", "worker")), ("other", ("chief",))):
        body = build_submission(
            name, *(build_role_wire(role, 2) for role in roles), description=f"<{name}> größe\n2"
        )
        body["metadata"]["labels"] = labels if name == "gang" else {"team": "b"}
        await kube.create(FRAMEWORKS, namespace, body)
    await kube.patch(FRAMEWORKS, namespace, "gang", {"status": STATUS}, subresource="status")
    return namespace


def mask_ages(text: str) -> list[str]:
    """Replace the ages, which differ between two calls."""
    return [AGE.sub("AGE", line) for line in text.split("\n")]


async def test_templates_print_what_kubectl_prints(
    audited_plane: Access, kube: KubeClient, gangs: str
) -> None:
    listed = await kube.list(FRAMEWORKS, gangs)
    for template in TEMPLATES:
        output = f"jsonpath={template}"
        expected = run_kubectl(audited_plane, "get", "frameworks", "-n", gangs, "-o", output)
        printer = Printer(parse_output(output, tuple(Form)))
        assert printer.render(listed["items"], is_list=True) == expected, template


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_get_prints_what_kubectl_prints(
    audited_plane: Access, gangs: str, form: tuple[str, ...]
) -> None:
    where = () if "-A" in form else ("-n", gangs)
    kind = () if form and form[0] == "framework/gang" else ("frameworks",)

    def print_kubectl() -> list[str]:
        return select(run_kubectl(audited_plane, "get", *kind, *form, *where))

    def select(text: str) -> list[str]:
        lines = mask_ages(text)
        return [line for line in lines if line.startswith(gangs)] if "-A" in form else lines

    expected = print_kubectl()
    printed = select(print_ours(audited_plane, "get", *form, *where))
    # Columns of all namespaces are narrower when Frameworks of earlier tests have gone meanwhile.
    while "-A" in form and (now := print_kubectl()) != expected:
        expected, printed = now, select(print_ours(audited_plane, "get", *form, *where))
    assert printed == expected


def test_yaml_has_the_content_that_kubectl_prints(audited_plane: Access, gangs: str) -> None:
    expected = run_kubectl(audited_plane, "get", "frameworks", "-n", gangs, "-o", "yaml")
    printed = print_ours(audited_plane, "get", "-n", gangs, "-o", "yaml")
    assert yaml.safe_load(printed) == yaml.safe_load(expected)


def test_missing_framework_is_named_with_those_that_exist(
    audited_plane: Access, gangs: str
) -> None:
    done = call_on(audited_plane, "get", "gang", "gone", "-n", gangs, "-o", "name")
    assert done.code == 1
    assert done.out == "framework.frameworkcontroller.microsoft.com/gang\n"
    assert "no Framework 'gone'" in done.err
    assert "there are gang, other" in done.err


def test_empty_namespace_is_said_as_kubectl_says_it(
    framework_crd: None, audited_plane: Access, namespace: str
) -> None:
    done = call_on(audited_plane, "get", "-n", namespace)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"No resources found in {namespace} namespace.\n"


async def test_watch_prints_each_change_below_the_list(
    audited_plane: Access, kube: KubeClient, gangs: str
) -> None:
    command = [sys.executable, "-u", "-m", "cli.main", "get", "-w", "-n", gangs]
    program = await asyncio.create_subprocess_exec(
        *command,
        "--kubeconfig",
        audited_plane.kubeconfig,
        stdout=subprocess.PIPE,
        env=build_env(),
    )
    assert program.stdout is not None
    read = program.stdout.readline
    try:
        async with asyncio.timeout(HANG_SECONDS):
            header, gang, other = [(await read()).decode() for _ in range(3)]
            body = {"status": {**STATUS, "state": "Completed"}}
            await kube.patch(FRAMEWORKS, gangs, "gang", body, subresource="status")
            changed = (await read()).decode()
            await kube.delete(FRAMEWORKS, gangs, "other")
            deleted = (await read()).decode()
    finally:
        program.kill()
        await program.wait()
    assert [line.split()[0] for line in (header, gang, other)] == ["NAME", "gang", "other"]
    assert changed.split()[:3] == ["gang", "Completed", "2"]
    assert changed.index("Completed") == header.index("STATE")
    assert changed.index("InProgress") == header.index("RESULT")
    assert deleted.split()[0] == "other"
