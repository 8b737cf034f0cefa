"""The CustomResourceDefinitions of the kinds. Pure.

``tools/manifests.py`` writes them to deploy/kinds. The rules of the API server in
``framework.api.crd`` determine these, too. In addition:

1. The schema has types and bounds of the fields, so that the API server refuses a wrong type. The
   compile step checks all else. Its messages have field and remedy, and the controller writes them
   into the conditions of the job.
2. Unknown fields and Pod templates are kept as they are.
3. Each field may be null, as in the original.
"""

from typing import Any, TypeAlias

from framework.api.constants import MAX_TASK_NUMBER
from framework.api.crd import RULES_KEY
from framework.api.scalerequest import MAX_TIMEOUT_SECONDS, MAX_VARIABLES, MAX_WORKERS
from framework.kinds.scaling.status import FAILED
from framework.kinds.scaling.types import ScalerKind
from framework.kinds.tfjob import types as tfjob
from framework.kinds.trainingjob import types as trainingjob

Schema: TypeAlias = dict[str, Any]

_MAX_NAME = 63
_MAX_SCALER_NAME = 253  # a scaler gives its name to no other object
_MAX_TEXT = 4096
# More entries than types are a fault, which the compile step explains.
_MAX_REPLICA_SPECS = 16
_MAX_VOLUMES = 100
_KEPT = {"x-kubernetes-preserve-unknown-fields": True}
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
# Not in the originals.
_REASON = {"name": "Reason", "type": "string", "jsonPath": ".status.reason"}


def build_crds() -> dict[str, Schema]:
    """Build the definitions by the singular names of their kinds; each call returns new dicts."""
    return {
        "tfjob": _build_tfjob(),
        "trainingjob": _build_trainingjob(),
        "scalein": _build_scaler(ScalerKind.SCALE_IN),
        "scaleout": _build_scaler(ScalerKind.SCALE_OUT),
    }


def _build_tfjob() -> Schema:
    replicas = _list(
        _object(
            "Replicas of one type.",
            **_spell(_text("MASTER, PS or WORKER."), "tfReplicaType", "tf_replica_type"),
            **_spell(_number("Port of the server of TensorFlow."), "tfPort", "tf_port"),
            replicas=_number("Number of replicas.", MAX_TASK_NUMBER),
            template=_object("Pod template with a container of the name tensorflow."),
            IsDefaultPS={"type": "boolean", "nullable": True},
        ),
        "One entry for each replica type.",
        _MAX_REPLICA_SPECS,
    )
    board = _object(
        "A TensorBoard beside the job.",
        logDir=_text("Directory or URL of the event files."),
        volumes=_list(_object(""), "Volumes of its Pod.", _MAX_VOLUMES),
        volumeMounts=_list(_object(""), "Mounts of its container.", _MAX_VOLUMES),
        serviceType=_text("Type of its Service."),
    )
    runtime_id = _text("Part of the names of the Services.")
    spec = _object(
        "The job, in one of the two dialects of the original.",
        **_spell(replicas, "replicaSpecs", "replica_specs"),
        **_spell(runtime_id, "runtimeId", "RuntimeId", "runtimeid", "runtime_id"),
        **_spell(_text("Image of default parameter servers."), "tfImage", "tf_image"),
        tensorboard=board,
    )
    columns = [_column("Phase", ".status.phase"), _column("State", ".status.state"), _AGE, _REASON]
    return _build(tfjob.API_VERSION, tfjob.KIND, spec, columns, {"status": {}})


def _build_trainingjob() -> Schema:
    launcher = _build_replica("The Pod that starts the training.")
    worker = _build_replica("The Pods in which the training runs.")
    worker["properties"] |= {
        "minReplicas": _number("Least number of workers.", MAX_TASK_NUMBER),
        "maxReplicas": _number("Greatest number of workers.", MAX_TASK_NUMBER),
    }
    # The subresource scale needs a number.
    worker["properties"]["replicas"] = {
        **_number("Number of workers.", MAX_TASK_NUMBER),
        "nullable": False,
        "minimum": 1,
        "default": 1,
    }
    spec = _object(
        "The job.",
        etReplicaSpecs=_object("Launcher and workers.", launcher=launcher, worker=worker),
        cleanPodPolicy=_text("Which Pods are deleted at the end: All, Running or None."),
        launcherAttachMode=_text("How the launcher reaches the workers: ssh or kubexec."),
        slotsPerWorker=_number("Processes per worker."),
        restartPolicy=_text("OnFailure: start a failed job again. Default: Never."),
        backoffLimit=_number("Number of these restarts."),
    )
    columns = [_column("Phase", ".status.phase"), _AGE, _REASON]
    scale = {
        "specReplicasPath": ".spec.etReplicaSpecs.worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.workerSelector",
    }
    subresources = {"status": {}, "scale": scale}
    return _build(trainingjob.API_VERSION, trainingjob.KIND, spec, columns, subresources)


def _build_scaler(kind: ScalerKind) -> Schema:
    is_scale_in = kind is ScalerKind.SCALE_IN
    count = _number("Number of workers.", MAX_TASK_NUMBER)
    names = _list(_text("Name of a Pod."), "Pods of workers.", MAX_WORKERS)
    workers = (
        {"toDelete": _object("Which workers to remove.", count=count, podNames=names)}
        if is_scale_in
        else {"toAdd": _object("How many workers to add.", count=count)}
    )
    timeout = _number("Limit of each wait and of the script, in seconds.", MAX_TIMEOUT_SECONDS)
    timeout["minimum"] = 1
    variable = _object("", name=_text("Name."), value=_text("Value."))
    spec = _object(
        "One change of the workers of a running TrainingJob.",
        selector=_object("The TrainingJob.", name=_text("Its name, in the same namespace.")),
        script=_text("Path of a script in the launcher, and its arguments."),
        timeout=timeout,
        env=_list(variable, "Variables of the script.", MAX_VARIABLES),
        backoffLimit=_number("Without effect."),
        **workers,
    )
    # An edit of a scaler in progress would end it before its changes are undone.
    spec[RULES_KEY] = [
        {
            "rule": "self == oldSelf",
            "message": "the spec of a scaler does not change: delete the scaler and create another",
        }
    ]
    failed = f'.status.conditions[?(@.type=="{FAILED}")]'
    columns = [
        _column("Phase", ".status.phase"),
        _AGE,
        # Not in the original.
        _column("Reason", f"{failed}.reason"),
        {**_column("Message", f"{failed}.message"), "priority": 1},
    ]
    subresources: Schema = {"status": {}}
    return _build(
        trainingjob.API_VERSION, kind.value, spec, columns, subresources, _MAX_SCALER_NAME
    )


def _build_replica(description: str) -> Schema:
    return _object(
        description,
        replicas=_number("Number of Pods.", MAX_TASK_NUMBER),
        template=_object("Pod template."),
        restartPolicy=_text("Whether a Pod that has ended is replaced."),
    )


def _build(
    api_version: str,
    kind: str,
    spec: Schema,
    columns: list[Schema],
    subresources: Schema,
    max_name: int = _MAX_NAME,
) -> Schema:
    group, _, version = api_version.partition("/")
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "preserveUnknownFields": False,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": _build_root(spec, max_name)},
                }
            ],
        },
    }


def _build_root(spec: Schema, max_name: int) -> Schema:
    """Build the schema of a whole object; its name may have ``max_name`` characters."""
    name = {"type": "string", "maxLength": max_name}
    status = {"type": "object", "description": "Only the controller writes it.", **_KEPT}
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": spec,
            "status": {**status, "nullable": True},
        },
    }


def _spell(schema: Schema, *names: str) -> dict[str, Schema]:
    """Give a field each of its spellings."""
    return dict.fromkeys(names, schema)


def _object(description: str, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "nullable": True, **_KEPT}
    if description:
        schema["description"] = description
    if properties:
        schema["properties"] = properties
    return schema


def _list(items: Schema, description: str, most: int) -> Schema:
    return {
        "type": "array",
        "description": description,
        "nullable": True,
        "maxItems": most,
        "items": items,
    }


def _text(description: str) -> Schema:
    return {
        "type": "string",
        "description": description,
        "nullable": True,
        "maxLength": _MAX_TEXT,
    }


def _number(description: str, most: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "description": description, "nullable": True}
    return schema if most is None else {**schema, "minimum": 0, "maximum": most}


def _column(name: str, path: str) -> Schema:
    return {"name": name, "type": "string", "jsonPath": path}
