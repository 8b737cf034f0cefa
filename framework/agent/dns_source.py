"""The DNS source: builds a roster from the DNS names of all Tasks of a gang.

An agent uses it when it can read neither the attempt ConfigMap nor the Framework. Each Task has one
name, the ``hostname.subdomain`` of its Pod below a headless Service. Threads resolve the names,
because a lookup of the system's resolver cannot be stopped. DNS has no attempts: an address may
belong to a Pod of an earlier attempt, and the agents warn about this.
"""

import re
import socket
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.framework_roster import FrameworkView
from framework.agent.health import Health, SourceState, update_state
from framework.api import constants
from framework.api.constants import READINESS_MAX_MISSING
from framework.api.gangreadiness import Missing
from framework.api.naming import is_role_name
from framework.api.roster import PHASE_ACTIVE, Member, RoleRoster, Roster

DEFAULT_NAME = "{framework}-{role}-{index}.{framework}"
_PLACEHOLDERS = re.compile(r"\{(?:framework|role|index|namespace)\}")
_LITERAL = re.compile(r"[a-z0-9.-]*\Z")
_COUNT = re.compile(r"[0-9]{1,5}\Z")

_THREADS = 16
# Maximum age of an answer. The gang is complete when every name has an answer that is not older.
_FRESH_SECONDS = 10.0
_ROUND_SECONDS = 1.0
# A gang of N Pods sends N * N queries per round, so a large gang has long rounds.
_ROUND_SECONDS_PER_NAME = 0.01
_ROUND_MAX_SECONDS = 10.0
# A lookup without an answer is repeated after this time.
_LOOKUP_SECONDS = 8.0


class ExpectedGangError(ValueError):
    """A setting does not describe a gang; the message names the setting and the remedy."""


class ExpectedGang(NamedTuple):
    """The gang that DNS is asked for: Tasks per role, and the pattern of the DNS names."""

    roles: Tuple[Tuple[str, int], ...]
    pattern: str

    def build_name(self, namespace: str, framework: str, role: str, number: int) -> str:
        """Build the DNS name of the Pod of one Task."""
        return build_name(self.pattern, namespace, framework, role, number)


def build_name(pattern: str, namespace: str, framework: str, role: str, number: int) -> str:
    """Build a DNS name from a pattern."""
    return pattern.format(namespace=namespace, framework=framework, role=role, index=number)


def parse_roles(text: str) -> Tuple[Tuple[str, int], ...]:
    """Parse ``ps=1,worker=4``.

    Raises:
        ExpectedGangError: The text is not such a list.
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
    """Read the pattern of the Pods' DNS names.

    Raises:
        ExpectedGangError: The setting is not such a pattern.
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
    """Read the gang that DNS is asked for; None if DNS is not a source.

    Raises:
        ExpectedGangError: The settings are invalid, or their gang lacks this Pod.
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
    """Return whether a text is a pattern that gives every Task its own DNS name."""
    is_literal = _LITERAL.match(_PLACEHOLDERS.sub("", text)) is not None
    return is_literal and "{index}" in text and "{role}" in text


def resolve(name: str) -> Tuple[str, ...]:
    """Resolve a name to its addresses, sorted, IPv4 first; () if it has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    addresses = {str(entry[4][0]).partition("%")[0] for entry in found}
    return tuple(sorted(addresses, key=lambda a: (":" in a, a)))


class Resolver:
    """Resolves many names in parallel. A lookup cannot be stopped, so daemon threads run it."""

    def __init__(
        self, clock: AgentClock, lookup: Callable[[str], Tuple[str, ...]] = resolve
    ) -> None:
        """Prepare; the first query starts the first thread."""
        self._clock = clock
        self._lookup = lookup
        self._asked: Dict[str, float] = {}
        self._answers: Any = None
        self._questions: Any = None
        self._threads = 0
        self.answered: Dict[str, Tuple[float, Tuple[str, ...]]] = {}

    def ask(self, names: List[str]) -> None:
        """Start lookups, except of names that have a lookup in progress."""
        now = self._clock.monotonic()
        for name in names:
            if now - self._asked.get(name, -_LOOKUP_SECONDS) >= _LOOKUP_SECONDS:
                self._asked[name] = now
                self._start_thread()
                self._questions.put(name)

    def collect(self, timeout_seconds: float) -> None:
        """Receive answers until all have arrived or the time is over."""
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
        import queue  # queue and threading are slow imports that few agents need
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
    """Resolves the names of a gang in rounds; ``view`` is the newest result."""

    def __init__(
        self,
        clock: AgentClock,
        namespace: str,
        framework: str,
        expected: ExpectedGang,
        lookup: Callable[[str], Tuple[str, ...]] = resolve,
    ) -> None:
        """Prepare to resolve the names of ``expected``."""
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
        """Resolve names without a recent answer; wait at most about ``timeout_seconds``."""
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
        self.state = update_state(self.state, health, "no answer yet", self._clock.monotonic())

    def _get_fresh(self, name: str) -> Tuple[str, ...]:
        at, addresses = self._resolver.answered.get(name, (0.0, ()))
        return addresses if self._clock.monotonic() - at <= _FRESH_SECONDS else ()

    def _build_view(self) -> FrameworkView:
        missing: List[Missing] = []
        roles = []
        for role, count in self._expected.roles:
            members: List[Member] = []
            for number in range(count):
                name = self._names[role, number]
                addresses = self._get_fresh(name)
                if addresses:
                    members.append(Member(number, addresses, "", 0))
                elif len(missing) < READINESS_MAX_MISSING:
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
        running=False,  # not in DNS
        members=members,
        completed=(),
        absent=(),
    )
