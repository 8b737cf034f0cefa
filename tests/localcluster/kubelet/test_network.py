import pytest

from localcluster.kubelet.network import LoopbackNetwork, NetworkError, render_hosts


async def test_loopback_network_pods_get_different_addresses() -> None:
    network = LoopbackNetwork()

    addresses = [await network.attach(uid) for uid in ("a", "b", "c", "a")]

    assert addresses == [("127.64.0.1",), ("127.64.0.2",), ("127.64.0.3",), ("127.64.0.1",)]


async def test_loopback_network_address_given_back_comes_last() -> None:
    network = LoopbackNetwork(first=1, last=3)
    await network.attach("a")
    await network.attach("b")
    await network.detach("a")

    assert await network.attach("c") == ("0.0.0.3",)
    assert await network.attach("d") == ("0.0.0.1",)


async def test_loopback_network_full_raises() -> None:
    network = LoopbackNetwork(first=1, last=2)
    await network.attach("a")
    await network.attach("b")

    with pytest.raises(NetworkError):
        await network.attach("c")


def test_render_hosts_pod_knows_its_name_and_aliases() -> None:
    text = render_hosts("p", ("127.64.0.1",), [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}])

    assert "127.0.0.1\tlocalhost\n" in text
    assert "127.64.0.1\tp\n" in text
    assert text.endswith("10.0.0.1\ta\tb\n")
