"""Messages of schedulers, kubelets and API servers, as these write them."""

import pytest

from cli.why.kubeletmessages import (
    ImageFault,
    MissingObject,
    classify_image_fault,
    find_missing_object,
    find_volume,
)
from cli.why.refusals import Refuser, parse_refusal
from cli.why.shortages import Lack, parse_shortages

NONE_FOUND = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
SCHEDULER = {
    "resource": (
        (
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu. "
            f"{NONE_FOUND}"
        ),
        [(Lack.RESOURCE, 2, "nvidia.com/gpu"), (Lack.CORDONED, 1, "")],
    ),
    "taint": (
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint "
            "{node-role.kubernetes.io/control-plane: }, 2 node(s) had untolerated taint "
            "{gpu: a100}. "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        ),
        [(Lack.TAINT, 2, "gpu: a100"), (Lack.TAINT, 1, "node-role.kubernetes.io/control-plane: ")],
    ),
    "old taint": (
        "0/1 nodes are available: 1 node(s) had taint {gpu: a100}, that the pod didn't tolerate.",
        [(Lack.TAINT, 1, "gpu: a100")],
    ),
    "taint without a name": (
        "0/2 nodes are available: 2 node(s) had untolerated taint(s). preemption: x.",
        [(Lack.TAINT, 2, "")],
    ),
    "selector": (
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        [(Lack.SELECTOR, 2, "")],
    ),
    "claim": (
        '0/2 nodes are available: persistentvolumeclaim "data" not found. preemption: x.',
        [(Lack.CLAIM_MISSING, 0, "data")],
    ),
    "unbound": (
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: x.",
        [(Lack.CLAIM_UNBOUND, 0, "")],
    ),
    "volume": (
        "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
        [(Lack.VOLUME_NODE, 2, "")],
    ),
    "claims": (
        (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ),
        [(Lack.RESOURCE, 1, "nvidia.com/gpu")],
    ),
    "advice": (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu; this local cluster offers 0: x",
        [(Lack.RESOURCE, 1, "nvidia.com/gpu")],
    ),
    "pods": ("0/1 nodes are available: 1 Too many pods.", [(Lack.PODS, 1, "")]),
    "ports": (
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
        [(Lack.PORT, 1, "")],
    ),
    "anti-affinity": (
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
        [(Lack.ANTI_AFFINITY, 1, "")],
    ),
    "affinity of other Pods": (
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
        [(Lack.ANTI_AFFINITY, 1, "")],
    ),
    "volume of another node": (
        "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.",
        [(Lack.VOLUME_NODE, 1, "")],
    ),
    "spread": (
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.",
        [(Lack.SPREAD, 1, "")],
    ),
    "no nodes": ("no nodes available to schedule pods", [(Lack.NO_NODES, 0, "")]),
    "unknown": ("something else", [(Lack.OTHER, 0, "")]),
    "empty": ("", []),
}


@pytest.mark.parametrize(("message", "expected"), SCHEDULER.values(), ids=SCHEDULER)
def test_message_of_the_scheduler(message: str, expected: list[tuple[Lack, int, str]]) -> None:
    found = parse_shortages(message)
    assert [(s.lack, s.nodes, s.name) for s in found] == expected


IMAGES = {
    "missing": (
        (
            'rpc error: code = NotFound desc = failed to pull and unpack image "r/x:1": failed to '
            'resolve reference "r/x:1": r/x:1: not found'
        ),
        ImageFault.MISSING,
    ),
    "denied": (
        "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
        ImageFault.DENIED,
    ),
    "denied by Docker Hub": (
        (
            "pull access denied, repository does not exist or may require authorization: server "
            "message: insufficient_scope: authorization failed"
        ),
        ImageFault.DENIED,
    ),
    "unreachable": (
        'failed to do request: Head "https://r/v2/x": dial tcp: lookup r: no such host',
        ImageFault.UNREACHABLE,
    ),
    "never": (
        'ErrImageNeverPull Container image "x" is not present with pull policy of Never',
        ImageFault.NEVER,
    ),
    "invalid": (
        (
            'Failed to apply default image tag "A:b:c": failed to parse image name: invalid '
            "reference format"
        ),
        ImageFault.INVALID,
    ),
    "unknown": ("ImagePullBackOff", ImageFault.OTHER),
}


@pytest.mark.parametrize(("message", "expected"), IMAGES.values(), ids=IMAGES)
def test_message_about_an_image(message: str, expected: ImageFault) -> None:
    assert classify_image_fault("ErrImagePull", message) is expected


OBJECTS = {
    'configmap "settings" not found': MissingObject("configmap", "settings"),
    'secret "token" not found': MissingObject("secret", "token"),
    "couldn't find key lr in ConfigMap team/settings": MissingObject("configmap", "settings", "lr"),
    "couldn't find key lr in Secret team/token": MissingObject("secret", "token", "lr"),
    'MountVolume.SetUp failed for volume "v" : references non-existent secret key: k': (
        MissingObject("secret", "", "k")
    ),
    "hostPath type check failed: /data is not a directory": None,
}


@pytest.mark.parametrize("message", OBJECTS)
def test_message_about_a_missing_object(message: str) -> None:
    assert find_missing_object(message) == OBJECTS[message]


def test_message_names_its_volume() -> None:
    assert (
        find_volume('MountVolume.SetUp failed for volume "data" : secret "x" not found') == "data"
    )
    assert find_volume("Unable to attach or mount volumes") == ""


REFUSALS = {
    'pods "g-w-0" is forbidden: exceeded quota: team, requested: pods=1,requests.cpu=2, used: '
    "pods=4,requests.cpu=7, limited: pods=4,requests.cpu=8": (Refuser.QUOTA, "team"),
    'pods "g-w-0" is forbidden: failed quota: team: must specify limits.cpu for: main': (
        Refuser.QUOTA_NEEDS,
        "team",
    ),
    'pods "g-w-0" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true '
    '(pod or container "main" must set securityContext.runAsNonRoot=true)': (
        Refuser.POD_SECURITY,
        "restricted",
    ),
    "pods \"g-w-0\" is forbidden: ValidatingAdmissionPolicy 'gpus.team' with binding 'b' denied "
    "request: too many": (Refuser.POLICY, "gpus.team"),
    'admission webhook "check.team.io" denied the request: no owner': (
        Refuser.WEBHOOK,
        "check.team.io",
    ),
    'Internal error occurred: failed calling webhook "check.team.io": failed to call webhook: Post '
    '"https://x": connection refused': (Refuser.WEBHOOK_DOWN, "check.team.io"),
    'pods "g-w-0" is forbidden: error looking up service account team/trainer: serviceaccount '
    '"trainer" not found': (Refuser.SERVICE_ACCOUNT, "trainer"),
    'pods "g-w-0" is forbidden: no PriorityClass with name high was found': (
        Refuser.PRIORITY_CLASS,
        "high",
    ),
    'pods "g-w-0" is forbidden: unable to create new content in namespace team because it is being '
    "terminated": (Refuser.NAMESPACE, "team"),
    'secrets is forbidden: User "c" cannot create resource "secrets" in API group "" in the '
    'namespace "team"': (Refuser.RIGHT, "secrets"),
    'pods "g-w-0" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a '
    "resource you can't set finalizers on: , <nil>": (Refuser.FINALIZERS_RIGHT, ""),
    'pods "g-w-0" is forbidden: maximum memory usage per Container is 256Mi, but limit is 512Mi': (
        Refuser.LIMIT_RANGE,
        "",
    ),
    'pods "g-w-0" is forbidden: [minimum cpu usage per Pod is 1.  No request is specified, '
    "maximum memory usage per Container is 256Mi.  No limit is specified]": (
        Refuser.LIMIT_RANGE,
        "",
    ),
    'admission webhook "check.team.io" denied the request without explanation': (
        Refuser.WEBHOOK,
        "check.team.io",
    ),
    'Pod "g-w-0" is invalid: spec.containers[0].image: Required value': (Refuser.INVALID, ""),
    "etcdserver: request is too large": (Refuser.OTHER, ""),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_message_of_a_refusal(message: str) -> None:
    refusal = parse_refusal(message)
    assert (refusal.refuser, refusal.name) == REFUSALS[message]


def test_refusal_of_a_quota_has_its_amounts() -> None:
    amounts = parse_refusal(next(iter(REFUSALS))).amounts
    assert amounts == {
        "requested": {"pods": "1", "requests.cpu": "2"},
        "used": {"pods": "4", "requests.cpu": "7"},
        "limited": {"pods": "4", "requests.cpu": "8"},
    }
