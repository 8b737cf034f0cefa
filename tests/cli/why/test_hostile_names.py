"""Names with the texts that rules look for: they do not decide which cause is shown.

Each message is that of Kubernetes with a name or value that a tenant may choose in its place.
"""

import json
from dataclasses import replace

import pytest

from cli.why.cause import Kind
from cli.why.kubeletmessages import (
    ImageFault,
    MissingObject,
    classify_image_fault,
    find_missing_object,
    find_volume,
)
from cli.why.names import hide_names, unquote
from cli.why.ranking import find_causes
from cli.why.refusals import Refuser, parse_refusal
from cli.why.shortages import Lack, parse_shortages
from framework.api.types import ContainerCompletionStatus
from tests.cli.why.builders import barrier_pod, fail, find_root, observe, pending, wait

QUOTA = "exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4"


def quote(text: str) -> str:
    """Write a text as Go's %q does."""
    return json.dumps(text)


REFUSALS = {
    "value of an invalid field": (
        f'Pod "g-w-0" is invalid: spec.containers[0].image: Invalid value: {quote(QUOTA)}: x',
        (Refuser.INVALID, ""),
    ),
    "service account": (
        (
            f'pods "g-w-0" is forbidden: error looking up service account team/{QUOTA}: '
            f"serviceaccount {quote(QUOTA)} not found"
        ),
        (Refuser.SERVICE_ACCOUNT, QUOTA),
    ),
    "service account with a quotation mark": (
        (
            'pods "g-w-0" is forbidden: error looking up service account team/a: serviceaccount '
            '"b" not found: serviceaccount "a: serviceaccount \\"b\\" not found" not found'
        ),
        (Refuser.SERVICE_ACCOUNT, 'a: serviceaccount "b" not found'),
    ),
    "priority class": (
        f'pods "g-w-0" is forbidden: no PriorityClass with name {QUOTA} was found',
        (Refuser.PRIORITY_CLASS, QUOTA),
    ),
    "user": (
        (
            f"pods is forbidden: User {quote('x: ' + QUOTA)} cannot create resource "
            '"pods" in API group "" in the namespace "team"'
        ),
        (Refuser.RIGHT, "pods"),
    ),
    "text of a webhook": (
        f'admission webhook "a.io" denied the request: image {QUOTA}',
        (Refuser.WEBHOOK, "a.io"),
    ),
    "text of a policy": (
        (
            "pods \"g-w-0\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied "
            'request: image serviceaccount "x" not found'
        ),
        (Refuser.POLICY, "p"),
    ),
    "value of Pod Security": (
        (
            'pods "g-w-0" is forbidden: violates PodSecurity "baseline:latest": seLinuxOptions '
            f"(pod set forbidden securityContext.seLinuxOptions: type {quote(QUOTA)})"
        ),
        (Refuser.POD_SECURITY, "baseline"),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_name_in_a_refusal_is_no_cause(name: str) -> None:
    message, expected = REFUSALS[name]
    refusal = parse_refusal(message)
    assert (refusal.refuser, refusal.name) == expected


def pull(image: str, end: str) -> str:
    """The messages of the kubelet and of containerd about an image."""
    name = quote(image)
    return (
        f"Failed to pull image {name}: rpc error: code = Unknown desc = failed to pull and unpack "
        f"image {name}: failed to resolve reference {name}: {end}"
    )


HOST = "unauthorized.no-such-host.io:4030"
IMAGES = {
    "name": (pull("r/unauthorized:401", "r/unauthorized:401: not found"), ImageFault.MISSING),
    "host": (
        pull(f"{HOST}/x", f'failed to do request: Head "https://{HOST}/v2/x": dial tcp: lookup '
             f"{HOST} on 10.0.0.10:53: no such host"),
        ImageFault.UNREACHABLE,
    ),
    "path of an address": (
        pull("r/x:403", "unexpected status from HEAD request to https://r/v2/forbidden/manifests/"
             "401: 404 Not Found"),
        ImageFault.MISSING,
    ),
    "port of an address": (
        pull("10.0.0.1:4031/x", "failed to do request: dial tcp 10.0.0.1:4031: i/o timeout"),
        ImageFault.UNREACHABLE,
    ),
    "host of a certificate": (
        pull(f"{HOST}/x", "failed to verify certificate: x509: certificate is valid for a.io, not "
             "unauthorized.no-such-host.io"),
        ImageFault.UNREACHABLE,
    ),
    "repository of cri-o": (
        ("initializing source docker://r/forbidden:401: reading manifest 401 in r/forbidden: "
        "manifest unknown"),
        ImageFault.MISSING,
    ),
    "repository of Docker": (
        "Error response from daemon: manifest for unauthorized:401 not found: manifest unknown",
        ImageFault.MISSING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_name_of_an_image_is_not_its_fault(name: str) -> None:
    message, expected = IMAGES[name]
    assert classify_image_fault("ErrImagePull", message) is expected


def test_reason_of_the_kubelet_is_stronger_than_any_text() -> None:
    text = "Container image unauthorized is not present"
    assert classify_image_fault("ErrImageNeverPull", text) is ImageFault.NEVER
    assert classify_image_fault("InvalidImageName", text) is ImageFault.INVALID


CLAIM = "a, 3 Too many pods. preemption: x"
SCHEDULER = {
    "claim": (
        f"0/3 nodes are available: persistentvolumeclaim {quote(CLAIM)} not found. preemption: y",
        [(Lack.CLAIM_MISSING, CLAIM)],
    ),
    "resource": (
        "0/3 nodes are available: 3 Insufficient example.com/node-unschedulable.",
        [(Lack.RESOURCE, "example.com/node-unschedulable")],
    ),
    "text of another plugin": (
        "0/3 nodes are available: 3 node(s) lack the disk pod affinity had taint {a: b}.",
        [(Lack.OTHER, "")],
    ),
}


@pytest.mark.parametrize("name", SCHEDULER)
def test_name_in_a_message_of_the_scheduler_is_no_shortage(name: str) -> None:
    message, expected = SCHEDULER[name]
    assert [(each.lack, each.name) for each in parse_shortages(message)] == expected


OBJECTS = {
    f'exec: {quote("secret x not found")}: executable file not found in $PATH': None,
    'exec: secret "x" not found: executable file not found in $PATH': None,
    'MountVolume.SetUp failed for volume "v" : hostPath type check failed: /secret "x" not found '
    "is not a directory": None,
    'MountVolume.SetUp failed for volume "v" : mount failed: references non-existent secret key: k':
        None,
    "couldn't find key secret in ConfigMap team/couldnt-find-key": MissingObject(
        "configmap", "couldnt-find-key", "secret"
    ),
    'MountVolume.SetUp failed for volume "secret" : configmap "secret" not found': MissingObject(
        "configmap", "secret"
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", OBJECTS)
def test_path_or_command_is_no_missing_object(message: str) -> None:
    assert find_missing_object(message) == OBJECTS[message]


def test_path_is_no_volume() -> None:
    message = 'hostPath type check failed: /failed for volume "x" : y is not a directory'
    assert find_volume(message) == ""


@pytest.mark.parametrize(
    "message",
    [
        'failed to exec "container has runAsNonRoot and image will run as root"',
        'secret "x" not found',
    ],
)
def test_command_of_a_container_does_not_decide_the_remedy(message: str) -> None:
    (cause,) = find_causes(observe([pending(0, wait("RunContainerError", message))]))
    assert cause.text == f"cannot create its container main: RunContainerError: {message}"
    assert cause.remedies[0].text.startswith("correct what the message names in the file")


@pytest.mark.parametrize(
    "reason",
    [
        "its Pod is not seen yet",
        'Pod cannot be created: pods "x" is forbidden: no',
        "not reached yet: ps/0",
        "waiting after 1 s; Framework x is unreachable: y",
        "missing right: watch configmaps; x",
    ],
)
def test_reason_of_a_missing_task_is_not_that_of_the_barrier(reason: str) -> None:
    log = (f"barrier: 1/2 ready after 10 s; waiting for worker/1 ({reason})",)
    observed = observe([barrier_pod(0)], logs={("gang-worker-0", "barrier"): log})
    found = {cause.kind for cause in find_causes(observed)}
    assert not found & {Kind.API_SERVER, Kind.REQUIREMENT}


def test_configmap_that_is_not_seen_is_no_requirement() -> None:
    log = ("barrier: waiting after 4 s; ConfigMap gang-attempt is not seen yet",)
    observed = observe([barrier_pod(0)], logs={("gang-worker-0", "barrier"): log})
    assert Kind.REQUIREMENT not in {cause.kind for cause in find_causes(observed)}


def test_termination_message_with_another_exit_code_is_of_no_agent() -> None:
    message = '{"exitCode":210,"reason":"BadConfig","message":"correct X"}'
    ended = ContainerCompletionStatus("main", "Error", message, 0, 3)
    assert find_root(observe(status=fail(ended, code=3))).kind is Kind.CRASH
    agent = replace(ended, code=210)
    assert find_root(observe(status=fail(agent, code=210))).kind is Kind.AGENT


def test_text_with_quotation_marks_keeps_its_words() -> None:
    text = 'a "b" \\ "c \\" d" "e'
    hidden = hide_names(text)
    assert hidden.text == 'a "0" \\ "1" "2"'
    assert hidden.restore(hidden.text) == text
    assert [unquote(name) for name in hidden.names] == ["b", 'c " d', "e"]
