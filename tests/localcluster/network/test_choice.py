import pytest

from localcluster.network.choice import NetworkChoice, NetworkNeeds, open_network
from localcluster.network.cluster_names import ClusterNames
from localcluster.network.loopback import LoopbackNetwork
from localcluster.network.pod_network import NetworkError
from tests.localcluster.network.builders import close_listener

NEEDS = NetworkNeeds(
    api_address="http://127.0.0.1:1",
    serve_api=close_listener,
    has_private_root=False,
    in_user_namespace=False,
    names=ClusterNames(),
)


async def test_open_network_without_namespaces_falls_back_and_notes_the_limits() -> None:
    network, note = await open_network(NetworkChoice.AUTO, NEEDS)
    assert isinstance(network, LoopbackNetwork)
    assert network.api_address == "http://127.0.0.1:1"
    assert network.resolver is None
    assert "\n" not in note
    assert "Pods have no private roots" in note
    assert "bind the same port on all addresses collide" in note
    assert "names of Services do not resolve" in note


async def test_open_network_namespaces_that_were_asked_for_are_an_error() -> None:
    with pytest.raises(NetworkError, match='use network "loopback"'):
        await open_network(NetworkChoice.NAMESPACE, NEEDS)


async def test_open_network_loopback_that_was_asked_for_has_no_note() -> None:
    network, note = await open_network(NetworkChoice.LOOPBACK, NEEDS)
    assert isinstance(network, LoopbackNetwork)
    assert note == ""
