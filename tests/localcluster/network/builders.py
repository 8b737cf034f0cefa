"""Pods and Services as the name server sees them, and an API server that serves nothing."""

import socket
from typing import Any

from framework.kube.resources import Object
from localcluster.network.cluster_names import ClusterNames


async def close_listener(listener: socket.socket) -> None:
    """Stand for an API server."""
    listener.close()


def build_pod(name: str, address: str, *, is_ready: bool = True, **fields: Any) -> Object:
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    status: Object = {"phase": "Running", "podIP": address, "conditions": [ready]}
    status |= fields.pop("status", {})
    metadata = {"namespace": "default", "name": name, "uid": name, "labels": {"app": "train"}}
    metadata |= fields.pop("metadata", {})
    return {"metadata": metadata, "spec": fields, "status": status}


def build_service(name: str = "train", **spec: Any) -> Object:
    body: Object = {"clusterIP": "None", "selector": {"app": "train"}, **spec}
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": body}


def build_names(service: Object, *pods: Object) -> ClusterNames:
    names = ClusterNames()
    names.replace([service], "1")
    names.replace_pods(pods)
    return names
