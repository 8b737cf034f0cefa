"""A passing barrier loads few modules: its memory delays the release of a gang."""

import re
from pathlib import Path

from tests.barrier.api_server import make_configmap, make_roster, run_api_server
from tests.barrier.conftest import Starter
from tests.support.servers.pki import build_server_context, create_pki

# Modules that a passing barrier does not need; each costs memory and time in every Pod of a gang.
NEEDLESS = {
    *("asyncio", "concurrent", "dataclasses", "datetime", "decimal", "email", "encodings.idna"),
    *("gzip", "http", "inspect", "ipaddress", "kubernetes", "logging", "queue", "random"),
    *("stringprep", "subprocess", "tempfile", "threading", "traceback", "unicodedata", "urllib"),
    *("uuid", "yaml", "framework.agent.kubeconfig", "framework.api.codec", "framework.kube"),
    *("framework.api.gojson", "framework.api.types"),
}


def test_passing_barrier_over_tls_loads_nothing_needless(start: Starter, tmp_path: Path) -> None:
    pki = create_pki(tmp_path / "pki")
    (tmp_path / "account" / "ca.crt").write_bytes(pki.ca_cert.read_bytes())
    with run_api_server(build_server_context(pki)) as server:
        server.add(make_configmap(make_roster()))
        barrier = start(KUBE_APISERVER_ADDRESS=server.address, PYTHONPROFILEIMPORTTIME="1")
        assert barrier.wait() == 0
    loaded = set(re.findall(r"^import time:.*\| +(\S+)$", barrier.text, re.MULTILINE))
    assert {"ssl", "barrier.app"} <= loaded
    parents = {name.rpartition(".")[0] for name in loaded}
    assert not (loaded | parents) & NEEDLESS
