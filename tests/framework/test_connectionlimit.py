import pytest

from framework.connectionlimit import ConnectionLimit, ConnectionTable, name_source


@pytest.fixture
def table() -> ConnectionTable[str]:
    return ConnectionTable(ConnectionLimit(in_all=4, per_source=3))


def test_source_above_its_bound_loses_its_oldest(table: ConnectionTable[str]) -> None:
    for name in ("x", "a", "b", "c"):
        assert table.add(name, "x" if name == "x" else "source") == []
    assert table.add("d", "source") == ["a"]
    assert table.list_open() == ["x", "b", "c", "d"]


def test_full_table_loses_the_oldest_of_the_largest_source(table: ConnectionTable[str]) -> None:
    for name in ("a1", "b1", "b2", "c1"):
        table.add(name, name[0])
    assert table.add("d1", "d") == ["b1"]
    assert table.add("e1", "e") == ["a1"]


def test_new_connection_always_stays(table: ConnectionTable[str]) -> None:
    for number in range(100):
        table.add(f"{number}", f"source-{number % 7}")
        assert f"{number}" in table.list_open()
        assert len(table) <= 4


def test_removed_connection_makes_room(table: ConnectionTable[str]) -> None:
    for name in ("a", "b", "c"):
        table.add(name, "source")
    table.remove("b")
    table.remove("b")
    assert table.add("d", "source") == []
    assert table.list_open() == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_source_is_an_address_or_its_ipv6_network(address: str, source: str) -> None:
    assert name_source(address) == source
