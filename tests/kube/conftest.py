"""The fixtures of tests against a real API server."""

from tests.support.policed import policed, policies
from tests.support.realserver import control_plane, framework_crd, http, kube, namespace

__all__ = ["control_plane", "framework_crd", "http", "kube", "namespace", "policed", "policies"]
