"""Puts the Framework CRD of deploy/ into an API server, and waits until kinds are served."""

from pathlib import Path
from typing import Any

import yaml

from framework.kube.resources import SCALE_INS, SCALE_OUTS, TFJOBS, TRAININGJOBS
from tests.support.servers.childprocess import ChildError, ChildProcess
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
CRD_FILE = ROOT / "deploy" / "base" / "crd.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/frameworks"


def install_crd(http: JsonHttp) -> None:
    """Create or replace the CRD, then wait until it is served."""
    crd = yaml.safe_load(CRD_FILE.read_text(encoding="utf-8"))
    wait_until(lambda: _write_crd(http, crd))
    wait_ready(http, FRAMEWORKS)


def wait_until_kinds_are_served(http: JsonHttp) -> None:
    """Wait for the kinds of deploy/kinds, which were applied."""
    for resource in (TFJOBS, TRAININGJOBS, SCALE_INS, SCALE_OUTS):
        wait_ready(http, resource.path())


def _write_crd(http: JsonHttp, crd: dict[str, Any]) -> bool:
    """Create or replace the CRD; return False if the server changed it since it was read."""
    path = f"{CRDS}/{crd['metadata']['name']}"
    status, current = http.request("GET", path)
    if status == 200:
        metadata = crd["metadata"] | {"resourceVersion": current["metadata"]["resourceVersion"]}
        status, answer = http.request("PUT", path, {**crd, "metadata": metadata})
    else:
        status, answer = http.request("POST", CRDS, crd)
    if status not in {200, 201, 409}:
        raise ChildError(f"the CRD was refused: {answer}")
    return status != 409


def wait_ready(http: JsonHttp, path: str, *children: ChildProcess) -> None:
    """Wait until a GET answers 200, while the children run.

    Raises:
        ChildError: a child ended, or the wait reached its limit.
    """

    def is_ready() -> bool:
        for child in children:
            child.raise_if_ended()
        return http.is_ready(path)

    wait_until(is_ready, lambda: f"{path}\n{children[-1].tail() if children else ''}")
