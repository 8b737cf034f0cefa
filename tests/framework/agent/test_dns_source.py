import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.agent import dns_source
from framework.agent.clock import AgentClock
from framework.agent.dns_source import (
    DEFAULT_NAME,
    DnsSource,
    ExpectedGang,
    ExpectedGangError,
    Resolver,
    is_pattern,
    parse_roles,
)
from framework.agent.framework_roster import FrameworkView
from framework.agent.health import Health
from tests.support.fakes.agentclock import VirtualClock
from tests.support.waiting import HANG_SECONDS, wait_until

GANG = ExpectedGang((("ps", 1), ("worker", 2)), DEFAULT_NAME)
ADDRESSES = {
    "f-ps-0.f": ("10.0.0.9",),
    "f-worker-0.f": ("10.0.0.2", "fd00::2"),
    "f-worker-1.f": ("10.0.0.3",),
}


class Dns:
    """Stands in for the system's resolver, below a source of the gang."""

    def __init__(self) -> None:
        self.addresses = dict(ADDRESSES)
        self.asked: list[str] = []
        self.clock = VirtualClock()
        self.source = DnsSource(self.clock, "default", "f", GANG, self._resolve)

    def _resolve(self, name: str) -> tuple[str, ...]:
        self.asked.append(name)
        return self.addresses.get(name, ())

    def poll_until_complete(self, seconds: float) -> bool:
        """Poll for some time, which passes only between two rounds of lookups."""
        ends_at = self.clock.monotonic() + seconds
        while self.clock.monotonic() < ends_at:
            self.source.poll(HANG_SECONDS)
            if self.view.roster.complete:
                return True
        return False

    @property
    def view(self) -> FrameworkView:
        assert self.source.view is not None
        return self.source.view


@pytest.fixture
def dns() -> Dns:
    return Dns()


def test_names_all_resolve_is_a_complete_roster(dns: Dns) -> None:
    assert dns.poll_until_complete(20.0)
    roster = dns.view.roster
    assert [(r.name, [m.addresses for m in r.members]) for r in roster.roles] == [
        ("ps", [("10.0.0.9",)]),
        ("worker", [("10.0.0.2", "fd00::2"), ("10.0.0.3",)]),
    ]
    assert (roster.generation, roster.instance_uid) == (0, "")
    assert dns.source.state.health is Health.HEALTHY
    assert sorted(dns.asked) == sorted(ADDRESSES)


def test_names_one_missing_is_named_until_it_resolves(dns: Dns) -> None:
    del dns.addresses["f-worker-1.f"]
    assert not dns.poll_until_complete(5.0)
    assert [(m.role, m.index, m.reason) for m in dns.view.missing] == [
        ("worker", 1, "DNS has no address of f-worker-1.f")
    ]
    dns.addresses["f-worker-1.f"] = ("10.0.0.3",)
    assert dns.poll_until_complete(20.0)


def test_names_old_answer_is_resolved_again(dns: Dns) -> None:
    """A Pod may get another address while the barrier waits for its peers."""
    del dns.addresses["f-worker-1.f"]
    dns.poll_until_complete(15.0)
    dns.addresses = {**ADDRESSES, "f-ps-0.f": ("10.0.0.77",)}
    dns.poll_until_complete(15.0)
    assert dns.asked.count("f-ps-0.f") >= 2


def test_resolver_that_hangs_does_not_delay_the_agent() -> None:
    is_over = threading.Event()
    hanging: set[str] = set()

    def hang(name: str) -> tuple[str, ...]:
        hanging.add(name)
        is_over.wait(HANG_SECONDS)
        hanging.discard(name)
        return ()

    resolver = Resolver(AgentClock(), hang)
    resolver.ask(["a", "b"])
    resolver.collect(0.05)
    # The threads hang, or will: the resolver did not wait for them.
    wait_until(lambda: hanging == {"a", "b"})
    assert resolver.answered == {}
    is_over.set()


def test_resolve_real_name_and_no_name() -> None:
    assert dns_source.resolve("localhost")
    assert dns_source.resolve("no-such-name.invalid") == ()
    assert dns_source.resolve("a" * 300) == ()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (DEFAULT_NAME, True),
        ("{role}-{index}.train.{namespace}.svc.cluster.local", True),
        ("{role}.train", False),
        ("{index}.train", False),
        ("{role}-{index}/{framework}", False),
        ("{role}-{index!r}", False),
        ("{role}-{index}{", False),
        ("{role}-{index}.{role.__class__}", False),
    ],
)
def test_is_pattern(pattern: str, *, expected: bool) -> None:
    assert is_pattern(pattern) is expected


@given(st.text(alphabet="{}role index.fwkn-!:", max_size=40))
def test_is_pattern_accepted_text_can_be_formatted(text: str) -> None:
    if is_pattern(text):
        dns_source.build_name(text, "default", "f", "worker", 1)


def test_parse_roles_keeps_the_order() -> None:
    assert parse_roles("worker=2, ps=1") == (("worker", 2), ("ps", 1))
    with pytest.raises(ExpectedGangError):
        parse_roles("worker=-1")
