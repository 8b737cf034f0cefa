"""Checks at start that the CRD is there, and that it has the status subresource.

Called by ``app``. Without /status every status write would also be a spec write (FRAMEWORK,
"Objects"). Least RBAC gives no right to read CRDs: then the first status write tells.

    CrdError    the CRD cannot be worked with
"""

import asyncio
import logging

from framework.api.constants import FRAMEWORK_CRD_NAME, VERSION
from framework.kube.client import KubeClient
from framework.kube.errors import ForbiddenError, KubeError, NotFoundError
from framework.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Object

logger = logging.getLogger(__name__)

_REMEDY = "apply deploy/base/crd.yaml of this release (kubectl apply --server-side -f crd.yaml)"
_PAUSE_SECONDS = 1.0


class CrdError(Exception):
    """The CRD is missing or unfit; the message says what to apply."""


async def check_crd(client: KubeClient, timeout_seconds: float) -> None:
    """Wait until the CRD is established; a server that is away is waited for without end.

    Raises:
        CrdError: It has no status subresource, or is still missing after ``timeout_seconds``.
    """
    waited = 0.0
    while True:
        try:
            crd = await client.get(CUSTOM_RESOURCE_DEFINITIONS, None, FRAMEWORK_CRD_NAME)
        except ForbiddenError:
            logger.info("may not read the CRD: not checked")
            return
        except NotFoundError:
            problem = f"the CRD {FRAMEWORK_CRD_NAME} is not installed"
        except KubeError as e:
            logger.warning("API server not reachable, trying on", extra={"error": str(e)})
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        else:
            problem = find_problem(crd)
            if not problem:
                return
        if waited >= timeout_seconds or not _may_pass(problem):
            raise CrdError(f"{problem}: {_REMEDY}")
        logger.warning("waiting for the CRD", extra={"problem": problem})
        await asyncio.sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS


def find_problem(crd: Object) -> str:
    """Find why this CRD cannot be worked with; "" if it can."""
    versions = (crd.get("spec") or {}).get("versions") or []
    version = next((v for v in versions if v.get("name") == VERSION), None)
    if version is None or not version.get("served"):
        return f"the CRD {FRAMEWORK_CRD_NAME} does not serve {VERSION}"
    if "status" not in (version.get("subresources") or {}):
        return f"the CRD {FRAMEWORK_CRD_NAME} has no status subresource"
    conditions = (crd.get("status") or {}).get("conditions") or []
    if not any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions):
        return f"the CRD {FRAMEWORK_CRD_NAME} is not established yet"
    return ""


def _may_pass(problem: str) -> bool:
    return "subresource" not in problem
