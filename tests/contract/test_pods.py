"""Pods: defaults, validation, the status subresource, binding."""

import pytest

from controller.core.objects.node_affinity import avoid_nodes
from tests.contract.apiclient import MERGE, STRATEGIC, Api, Object, pod
from tests.skips import DOES_NOT_APPLY

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HAS_ARCH = {"key": "kubernetes.io/arch", "operator": "Exists"}


async def test_pod_gets_its_defaults(api: Api) -> None:
    created = (await api.create("pods", pod("one"))).ok()

    spec, container = created["spec"], created["spec"]["containers"][0]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["resources"] == {}
    assert created["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("image", "policy"),
    [("a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent"), ("r:5000/a", "Always")],
)
async def test_pull_policy_follows_the_tag(api: Api, image: str, policy: str) -> None:
    created = (await api.create("pods", pod("one", container={"image": image}))).ok()
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("field", "content"),
    [
        ("containers[0].name", {"name": "Bad_"}),
        ("containers[0].name", {"name": ""}),
        ("containers[0].image", {"image": ""}),
        ("containers[0].env[0].name", {"env": [{"name": ""}]}),
        ("containers[0].env[0].name", {"env": [{"name": "a=b"}]}),
        ("containers[0].env[0].valueFrom", {"env": [{"name": "a", "valueFrom": {}}]}),
        ("containers[0].imagePullPolicy", {"imagePullPolicy": "Maybe"}),
        (
            "containers[0].volumeMounts[0].name",
            {"volumeMounts": [{"name": "v", "mountPath": "/x"}]},
        ),
        ("containers[0].ports[0].containerPort", {"ports": [{"containerPort": 70000}]}),
        (
            "containers[0].resources.requests",
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        ),
        ("containers[0].resources.limits[cpu]", {"resources": {"limits": {"cpu": "-1"}}}),
        ("containers[0].resources.limits[gpu]", {"resources": {"limits": {"gpu": "1"}}}),
        ("containers", {"containers": []}),
        ("restartPolicy", {"restartPolicy": "Sometimes"}),
        ("initContainers[0].name", {"initContainers": [{"name": "main", "image": "i"}]}),
        (
            "initContainers[0].readinessProbe",
            {"initContainers": [{"name": "i", "image": "i", "readinessProbe": {}}]},
        ),
        ("volumes[0].name", {"volumes": [{"name": "Bad_", "emptyDir": {}}]}),
        ("volumes[1].name", {"volumes": [{"name": "v"}, {"name": "v"}]}),
        ("volumes[0].secret.secretName", {"volumes": [{"name": "v", "secret": {}}]}),
        ("hostname", {"hostname": "A"}),
        ("activeDeadlineSeconds", {"activeDeadlineSeconds": 0}),
    ],
    ids=str,
)
async def test_invalid_pod_names_the_field(api: Api, field: str, content: Object) -> None:
    is_container = field.startswith("containers[0]")
    body = pod("one", container=content) if is_container else pod("one", spec=content)
    answer = await api.create("pods", body)
    assert f"spec.{field}" in answer.refused(422, "Invalid").fields


async def test_gated_pod_says_so_until_it_is_bound(api: Api) -> None:
    created = (await api.create("pods", pod("one", spec={"schedulingGates": [{"name": "a"}]}))).ok()
    (condition,) = created["status"]["conditions"]
    plain = (await api.create("pods", pod("plain"))).ok()

    assert condition.pop("lastTransitionTime") >= created["metadata"]["creationTimestamp"]
    assert condition == {
        "lastProbeTime": None,
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    assert "conditions" not in plain["status"]

    opened = (await api.patch("pods", "one", {"spec": {"schedulingGates": None}})).ok()
    # That is left to the scheduler.
    assert [item["reason"] for item in opened["status"]["conditions"]] == ["SchedulingGated"]
    body = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n1"}}
    assert (await api.send("POST", api.path("pods", "one", "binding"), body)).status == 201
    bound = (await api.get("pods", "one")).ok()
    assert [(item["type"], item["status"]) for item in bound["status"]["conditions"]] == [
        ("PodScheduled", "True")
    ]


@pytest.mark.parametrize(
    ("policy", "stored"),
    [("Always", "Always"), ("Never", None), ("OnFailure", None)],
)
async def test_only_sidecars_have_a_restart_policy(
    api: Api, policy: str, stored: str | None
) -> None:
    # Others have one in later versions, behind a feature gate.
    version = (await api.send("GET", "/version")).ok()
    if int(version["minor"].rstrip("+")) > 34:
        pytest.skip(f"{DOES_NOT_APPLY}restart policies of containers came after 1.34")
    prepare = {"name": "prepare", "image": "example.com/a:1", "restartPolicy": policy}
    body = pod("one", spec={"initContainers": [prepare]})
    body["spec"]["containers"][0]["restartPolicy"] = policy
    spec = (await api.create("pods", body)).ok()["spec"]
    assert spec["initContainers"][0].get("restartPolicy") == stored
    assert "restartPolicy" not in spec["containers"][0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"restartPolicy": "Never"}, "spec"),
        ({"nodeName": "other"}, "spec"),
        ({"terminationGracePeriodSeconds": 5}, "spec"),
        ({"containers": [{"name": "main", "command": ["x"]}]}, "spec"),
        ({"containers": [{"name": "b", "image": "b"}]}, "spec.containers"),
    ],
)
async def test_pod_spec_cannot_change(api: Api, change: Object, field: str) -> None:
    (await api.create("pods", pod("one"))).ok()
    answer = await api.patch("pods", "one", {"spec": change}, STRATEGIC)
    assert answer.refused(422, "Invalid").fields == [field]


async def test_pod_image_can_change(api: Api) -> None:
    (await api.create("pods", pod("one"))).ok()
    patch = {"spec": {"containers": [{"name": "main", "image": "example.com/main:2"}]}}
    patched = (await api.patch("pods", "one", patch, STRATEGIC)).ok()
    assert patched["spec"]["containers"][0]["image"] == "example.com/main:2"


NO_EXECUTE = {"key": "a", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize("content", [STRATEGIC, MERGE])
async def test_tolerations_are_replaced_as_a_whole(api: Api, content: str) -> None:
    held = {**NO_EXECUTE, "tolerationSeconds": 5}
    created = (await api.create("pods", pod("one", spec={"tolerations": [held]}))).ok()
    others = created["spec"]["tolerations"][1:]
    new = {"key": "b", "operator": "Exists"}

    for tolerations in (
        [held, *others, new],
        [{**held, "tolerationSeconds": 50}, *others, new],
        [*others, new, NO_EXECUTE],
    ):
        patch = {"spec": {"tolerations": tolerations}}
        patched = (await api.patch("pods", "one", patch, content)).ok()
        assert patched["spec"]["tolerations"] == tolerations


async def test_status_patch_changes_the_status_only(api: Api) -> None:
    created = (await api.create("pods", pod("one", node="n1"))).ok()
    patch = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {"nodeName": "n2"},
        "status": {"phase": "Running", "podIP": "127.0.0.9", "podIPs": [{"ip": "127.0.0.9"}]},
    }
    patched = (await api.patch("pods", "one", patch, STRATEGIC, subresource="status")).ok()
    assert patched["status"]["phase"] == "Running"
    assert patched["status"]["podIP"] == "127.0.0.9"
    assert patched["spec"] == created["spec"]


async def test_status_in_the_main_resource_is_ignored(api: Api) -> None:
    body = pod("one")
    body["status"] = {"phase": "Running"}
    created = (await api.create("pods", body)).ok()
    patched = (await api.patch("pods", "one", {"status": {"phase": "Running"}}, STRATEGIC)).ok()
    assert created["status"]["phase"] == "Pending"
    assert patched["status"]["phase"] == "Pending"
    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


ENDED = {"terminated": {"exitCode": 1}}
FINISHED = {"terminated": {"exitCode": 0}}
RUNNING: Object = {"running": {}}


@pytest.mark.parametrize(
    ("policy", "before", "after", "status"),
    [
        ("Never", ENDED, RUNNING, 422),
        ("OnFailure", ENDED, RUNNING, 200),
        ("OnFailure", FINISHED, RUNNING, 422),
        ("Always", FINISHED, RUNNING, 200),
        ("Never", RUNNING, FINISHED, 200),
    ],
)
async def test_ended_container_runs_again_only_by_the_restart_policy(
    api: Api, policy: str, before: Object, after: Object, status: int
) -> None:
    body = pod("one", node="n1")
    body["spec"]["restartPolicy"] = policy
    (await api.create("pods", body)).ok()
    for state, expected in ((before, 200), (after, status)):
        patch = {"status": {"containerStatuses": [{"name": "main", "state": state}]}}
        answer = await api.patch("pods", "one", patch, MERGE, subresource="status")
        assert answer.status == expected, answer.body


async def test_container_status_round_trips(api: Api) -> None:
    (await api.create("pods", pod("one", node="n1"))).ok()
    statuses = [
        {
            "name": "main",
            "state": {"terminated": {"exitCode": 201, "reason": "Error", "message": "why"}},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": "example.com/main:1",
            "imageID": "",
        }
    ]

    patch = {"status": {"phase": "Failed", "containerStatuses": statuses}}
    patched = (await api.patch("pods", "one", patch, STRATEGIC, subresource="status")).ok()

    terminated = patched["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (201, "why")


async def test_binding_assigns_the_node_once(api: Api) -> None:
    (await api.create("pods", pod("one"))).ok()
    body = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n1"}}
    first = await api.send("POST", api.path("pods", "one", "binding"), body)
    bound = (await api.get("pods", "one")).ok()
    second = await api.send("POST", api.path("pods", "one", "binding"), body)
    assert (first.status, first.body["status"]) == (201, "Success")
    assert bound["spec"]["nodeName"] == "n1"
    assert {"PodScheduled"} <= {item["type"] for item in bound["status"]["conditions"]}
    second.refused(409, "Conflict")


@pytest.mark.parametrize(
    "affinity",
    [
        None,
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [HAS_ARCH]}, {}]}}},
        {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [HAS_ARCH]}}
                ]
            }
        },
    ],
    ids=["none", "required", "preferred"],
)
async def test_pod_that_avoids_nodes_is_stored_with_its_affinity(
    api: Api, affinity: Object | None
) -> None:
    template = {} if affinity is None else {"affinity": affinity}
    spec = avoid_nodes(template, ["node-1", "ip-10-0-0-1.eu-west-1.compute.internal"])
    created = (await api.create("pods", pod("one", spec=spec))).ok()
    assert created["spec"]["affinity"] == spec["affinity"]
