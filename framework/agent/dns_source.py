"""The gang as DNS tells it: one name a Task, resolved in threads that nobody waits for too long.

Called by ``following`` where neither ConfigMap nor Framework can be read, and by ``probes``. The
names are those of a headless Service: ``hostname.subdomain`` of each Pod. DNS knows no attempts,
so an address may be that of a Pod of the attempt before; whoever uses this source says so.
"""

import re
import socket
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.framework_roster import FrameworkView
from framework.agent.health import Health, SourceState, advance
from framework.api import constants
from framework.api.naming import is_role_name
from framework.api.roster import PHASE_ACTIVE, Member, Missing, RoleRoster, Roster

DEFAULT_NAME = "{framework}-{role}-{index}.{framework}"
_PLACEHOLDERS = re.compile(r"\{(?:framework|role|index|namespace)\}")
_LITERAL = re.compile(r"[a-z0-9.-]*\Z")
_COUNT = re.compile(r"[0-9]{1,5}\Z")

_THREADS = 16
# An answer is believed so long; the gang is complete when all were given within this time.
_FRESH_SECONDS = 10.0
_ROUND_SECONDS = 1.0
# A gang of N asks N * N times; ten of 1000 names a second are enough for the cluster's DNS.
_ROUND_SECONDS_PER_NAME = 0.01
_ROUND_MAX_SECONDS = 10.0
# What the system's resolver does not answer in this time is asked again.
_LOOKUP_SECONDS = 8.0


class ExpectedGangError(ValueError):
    """The text does not tell the size of a gang."""


class ExpectedGang(NamedTuple):
    """The gang that DNS is asked for: its size, and how its Pods are called."""

    roles: Tuple[Tuple[str, int], ...]
    pattern: str

    def build_name(self, namespace: str, framework: str, role: str, number: int) -> str:
        """Build the name of one Task's Pod."""
        return build_name(self.pattern, namespace, framework, role, number)


def build_name(pattern: str, namespace: str, framework: str, role: str, number: int) -> str:
    """Fill a pattern in."""
    return pattern.format(namespace=namespace, framework=framework, role=role, index=number)


def parse_roles(text: str) -> Tuple[Tuple[str, int], ...]:
    """Parse ``ps=1,worker=4``.

    Raises:
        ExpectedGangError: It is no such list.
    """
    roles: Dict[str, int] = {}
    for part in text.split(","):
        role, _, count = (word.strip() for word in part.partition("="))
        if (
            not is_role_name(role)
            or not _COUNT.match(count)
            or int(count) > constants.MAX_TASK_NUMBER
        ):
            raise ExpectedGangError(f"{part.strip()!r:.80} is not ROLE=COUNT")
        if role in roles:
            raise ExpectedGangError(f"{role} is given twice")
        roles[role] = int(count)
    return tuple(roles.items())


def read_pattern(env: Mapping[str, str]) -> str:
    """Read how Pods are called in DNS.

    Raises:
        ExpectedGangError: The setting is no pattern of names.
    """
    name = constants.BARRIER_DNS_NAME_ENV
    pattern = env.get(name) or DEFAULT_NAME
    if not is_pattern(pattern):
        raise ExpectedGangError(
            f"${name} is {pattern!r:.100}; set it to a DNS name with {{role}} and {{index}} in it, "
            f"and {{framework}} and {{namespace}} if wanted, as in {DEFAULT_NAME}"
        )
    return pattern


def read_expected(env: Mapping[str, str]) -> Optional[ExpectedGang]:
    """Read the gang that DNS may be asked for; None where DNS is no source.

    Raises:
        ExpectedGangError: The settings tell no gang, or one without this Pod.
    """
    name = constants.BARRIER_EXPECT_ENV
    text = env.get(name, "")
    if not text:
        return None
    try:
        roles = parse_roles(text)
    except ExpectedGangError as e:
        raise ExpectedGangError(f"${name}: {e}; write it like ps=1,worker=4, or unset it") from e
    role, number = env.get(constants.TASKROLE_NAME, ""), env.get(constants.TASK_INDEX, "")
    if role and number.isdigit() and int(number) >= dict(roles).get(role, 0):
        raise ExpectedGangError(f"${name} lacks this Pod, {role}/{number}; raise its count")
    return ExpectedGang(roles, read_pattern(env))


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern of DNS names that differ for every Task."""
    is_literal = _LITERAL.match(_PLACEHOLDERS.sub("", text)) is not None
    return is_literal and "{index}" in text and "{role}" in text


def resolve(name: str) -> Tuple[str, ...]:
    """Resolve a name: IPv4 addresses first, each kind in order; none if there are none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    addresses = {str(entry[4][0]).partition("%")[0] for entry in found}
    return tuple(sorted(addresses, key=lambda a: (":" in a, a)))


class Resolver:
    """Resolves many names at once. A lookup cannot be stopped, so its thread is left behind."""

    def __init__(
        self, clock: AgentClock, lookup: Callable[[str], Tuple[str, ...]] = resolve
    ) -> None:
        """Ask by ``lookup``."""
        self._clock = clock
        self._lookup = lookup
        self._asked: Dict[str, float] = {}
        self._answers: Any = None
        self._questions: Any = None
        self._threads = 0
        self.answered: Dict[str, Tuple[float, Tuple[str, ...]]] = {}

    def ask(self, names: List[str]) -> None:
        """Ask for names, but not for those whose answer is still to come."""
        now = self._clock.monotonic()
        for name in names:
            if now - self._asked.get(name, -_LOOKUP_SECONDS) >= _LOOKUP_SECONDS:
                self._asked[name] = now
                self._start_thread()
                self._questions.put(name)

    def collect(self, timeout_seconds: float) -> None:
        """Take in answers until none is to come, or the time is over."""
        ends_at = self._clock.monotonic() + timeout_seconds
        while self._asked:
            left = ends_at - self._clock.monotonic()
            try:
                name, addresses = self._answers.get(timeout=max(0.0, self._clock.to_machine(left)))
            except self._empty:
                return
            self._asked.pop(name, None)
            self.answered[name] = (self._clock.monotonic(), addresses)

    def _start_thread(self) -> None:
        import queue  # with threading the dearest import of all, and few agents ask DNS
        import threading

        if self._questions is None:
            self._questions, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
            self._empty = queue.Empty
        if self._threads < _THREADS:
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            name = self._questions.get()
            self._answers.put((name, self._lookup(name)))


class DnsSource:
    """The gang, resolved again and again."""

    def __init__(
        self,
        clock: AgentClock,
        namespace: str,
        framework: str,
        expected: ExpectedGang,
        lookup: Callable[[str], Tuple[str, ...]] = resolve,
    ) -> None:
        """Resolve the names of ``expected``."""
        self._clock = clock
        self._namespace = namespace
        self._framework = framework
        self._expected = expected
        self._resolver = Resolver(clock, lookup)
        self._names = {
            (role, number): expected.build_name(namespace, framework, role, number)
            for role, count in expected.roles
            for number in range(count)
        }
        self._next_round_at = 0.0
        self.view: Optional[FrameworkView] = None
        self.state = SourceState(Health.STARTING, clock.monotonic(), "")

    def poll(self, timeout_seconds: float) -> None:
        """Wait for answers at most about ``timeout_seconds``, and ask what is to be asked."""
        now = self._clock.monotonic()
        if now < self._next_round_at:
            self._clock.sleep(min(timeout_seconds, self._next_round_at - now))
            return
        self._resolver.ask([n for n in self._names.values() if self._get_fresh(n) == ()])
        self._resolver.collect(timeout_seconds)
        pause = max(_ROUND_SECONDS, len(self._names) * _ROUND_SECONDS_PER_NAME)
        pause = min(pause, _ROUND_MAX_SECONDS)
        self._next_round_at = self._clock.monotonic() + self._clock.uniform(0.5, 1.0) * pause
        self.view = self._build_view()
        health = Health.HEALTHY if self._resolver.answered else Health.UNREACHABLE
        self.state = advance(self.state, health, "no answer yet", self._clock.monotonic())

    def _get_fresh(self, name: str) -> Tuple[str, ...]:
        at, addresses = self._resolver.answered.get(name, (0.0, ()))
        return addresses if self._clock.monotonic() - at <= _FRESH_SECONDS else ()

    def _build_view(self) -> FrameworkView:
        missing: List[Missing] = []
        roles = []
        for role, count in self._expected.roles:
            members = []
            for number in range(count):
                name = self._names[role, number]
                addresses = self._get_fresh(name)
                if addresses:
                    members.append(Member(number, addresses, "", 0))
                else:
                    missing.append(Missing(role, number, f"DNS has no address of {name}"))
            roles.append(_build_role(role, count, tuple(members)))
        roster = Roster(
            namespace=self._namespace,
            framework=self._framework,
            framework_uid="",
            attempt_id=0,
            instance_uid="",
            generation=0,
            complete=not missing,
            phase=PHASE_ACTIVE,
            roles=tuple(roles),
            leaving=(),
        )
        return FrameworkView(roster, tuple(missing))


def _build_role(role: str, count: int, members: Tuple[Member, ...]) -> RoleRoster:
    return RoleRoster(
        name=role,
        wanted=count,
        minimum=count,
        running=False,  # DNS cannot tell
        members=members,
        completed=(),
        absent=(),
    )
