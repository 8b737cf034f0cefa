from collections.abc import Callable

import pytest

from localcluster.network.loopback import LoopbackNetwork
from localcluster.network.pod_network import NetworkError

API = "http://127.0.0.1:1"


class Locks:
    """Locks of blocks, of which another cluster holds some."""

    def __init__(self, *foreign: str) -> None:
        self.foreign = foreign
        self.held: list[str] = []

    def __call__(self, prefix: str) -> Callable[[], None] | None:
        if prefix in self.foreign:
            return None
        self.held.append(prefix)
        return self._close

    def _close(self) -> None:
        self.held.pop()


async def test_loopback_network_pods_get_different_addresses() -> None:
    network = LoopbackNetwork(API, Locks())
    addresses = [await network.attach(uid) for uid in ("a", "b", "c", "a")]
    assert addresses == [("127.64.0.1",), ("127.64.0.2",), ("127.64.0.3",), ("127.64.0.1",)]


async def test_loopback_network_address_given_back_comes_last() -> None:
    network = LoopbackNetwork(API, Locks())
    first = await network.attach("a")
    await network.detach("a")
    others = [await network.attach(f"p{i}") for i in range(253)]
    assert first not in others
    assert await network.attach("b") == first


async def test_loopback_network_block_of_another_cluster_is_left_out() -> None:
    locks = Locks("127.64.0", "127.64.2")
    network = LoopbackNetwork(API, locks)
    addresses = [(await network.attach(str(i)))[0] for i in range(300)]
    assert len(set(addresses)) == 300
    assert {address.rpartition(".")[0] for address in addresses} == {"127.64.1", "127.64.3"}
    await network.close()
    assert locks.held == []


async def test_loopback_network_no_block_left_raises() -> None:
    network = LoopbackNetwork(API, lambda _: None)
    with pytest.raises(NetworkError):
        await network.attach("a")


async def test_loopback_network_two_on_one_machine_share_no_address() -> None:
    networks = [LoopbackNetwork(API), LoopbackNetwork(API)]
    blocks = {(await n.attach("a"))[0].rpartition(".")[0] for n in networks}
    for network in networks:
        await network.close()
    assert len(blocks) == 2
