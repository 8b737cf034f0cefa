"""The fixtures of tests against a real API server."""

from tests.kube.kindstage import deployed
from tests.support.fakes.jobscripts import ends
from tests.support.servers.policed import policed, policies
from tests.support.servers.realserver import (
    audited_plane,
    control_plane,
    framework_crd,
    http,
    kube,
    namespace,
)

__all__ = [
    "audited_plane", "control_plane", "deployed", "ends", "framework_crd", "http", "kube",
    "namespace", "policed", "policies",
]  # fmt: skip
