"""Finds regular expressions of Python's ``re`` whose cost grows faster than the text.

From each pattern come texts that are bad for it: something that leads to a repetition, what the
repetition takes many times, and an end that does not match. The cost is CPU time. A quadratic
pattern takes 16 times as long for a text of four times the length, and at 16,000 characters some
hundred times as long as a linear one.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from re import _constants as sre  # type: ignore[attr-defined]  # the only parser of patterns
from re import _parser as sre_parser  # type: ignore[attr-defined]  # not in its stubs
from typing import Any, NamedTuple

# An exponential pattern ends at one of them. From 16 on, it costs four times as much at each step
# where a repetition doubles the cost.
_FEW = (8, *range(16, 33, 2), 40)
# Characters, and four times as many. What is dear is found with few of them, and costs less itself.
_SIZES = (400, 1_000, 4_000)
_EXPONENTIAL_SECONDS = 0.1
# A linear pattern takes some microseconds.
_SUSPECT_SECONDS = 0.002
_SLOW_SECONDS = 0.02
# Longer than any disturbance of the measured thread.
_CERTAIN_SECONDS = 1.0
_SLOW_RATIO = 8.0
_MANY_REPEATS = 32
_ENDS = ("", "\x00", "\n!")
_MAX_PUMPS = 30
_CHARACTERS = "aA0 -._/=:\"'\\,(){}[]%@!\t\n"
_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT}

METHODS: dict[str, Callable[[re.Pattern[str], str], object]] = {
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "search": lambda pattern, text: pattern.search(text),
    "sub": lambda pattern, text: pattern.sub("", text),
    "split": lambda pattern, text: pattern.split(text),
    "findall": lambda pattern, text: pattern.findall(text),
    "finditer": lambda pattern, text: list(pattern.finditer(text)),
}
_AT_ONE_PLACE = frozenset({"match", "fullmatch"})


class Attack(NamedTuple):
    """A text that costs too much: ``lead``, then ``pump`` many times, then ``end``."""

    lead: str
    pump: str
    end: str
    cause: str


def find_attack(pattern: re.Pattern[str], methods: Iterable[str]) -> Attack | None:
    """Find a text for which a pattern takes more than linear time; None if there is none."""
    chosen = set(methods) & _AT_ONE_PLACE
    if set(methods) - _AT_ONE_PLACE:
        # To replace all is the dearest of those that look at every place.
        chosen.add("sub")
    runs = [partial(METHODS[name], pattern) for name in sorted(chosen)]
    return next((attack for run in runs if (attack := find_attack_on(run, pattern))), None)


def find_attack_on(run: Callable[[str], object], pattern: re.Pattern[str]) -> Attack | None:
    """Find a text, made from a pattern, for which a function takes more than linear time."""
    tree = sre_parser.parse(pattern.pattern, pattern.flags)
    leads = dict.fromkeys(["", *(lead for lead, _ in _walk_repeats(tree, ""))])
    for pump, lead, end in product(_list_pumps(tree), leads, _ENDS):
        cause = _judge(run, lead, pump, end)
        if cause:
            return Attack(lead, pump, end, cause)
    return None


def _judge(run: Callable[[str], object], lead: str, pump: str, end: str) -> str:
    for count in _FEW:
        if _measure_least(run, lead + pump * count + end) > _EXPONENTIAL_SECONDS:
            return f"exponential: {count} repetitions"
    for size in _SIZES:
        short = _measure_least(run, lead + pump * (size // len(pump)) + end)
        if short > _SUSPECT_SECONDS:
            long = _measure_least(run, lead + pump * (4 * size // len(pump)) + end)
            if long > _SLOW_SECONDS and long / short > _SLOW_RATIO:
                times = f"{short * 1000:.1f} ms and {long * 1000:.1f} ms"
                return f"{times} for {size} and {4 * size} characters"
    return ""


def _measure_least(run: Callable[[str], object], text: str) -> float:
    """Measure a text; again if the time may be that of another thread or program of the core."""
    taken = _measure(run, text)
    if _SUSPECT_SECONDS < taken < _CERTAIN_SECONDS:
        taken = min(taken, _measure(run, text), _measure(run, text))
    return taken


def _measure(run: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    run(text)
    return time.thread_time() - started


def _list_pumps(tree: Any) -> list[str]:
    pumps: dict[str, None] = {}
    for lead, body in _walk_repeats(tree, ""):
        pumps.update(dict.fromkeys(filter(None, (body, lead + body, lead, body + lead))))
    pumps.update(dict.fromkeys(_walk_characters(tree)))
    return list(pumps)[:_MAX_PUMPS]


def _walk_repeats(tree: Any, lead: str) -> Iterator[tuple[str, str]]:
    """Yield each repetition without a small bound: what leads to it, and what it takes once."""
    for op, argument in tree:
        if op in _REPEATS:
            least, most, body = argument
            yield from _walk_repeats(body, lead)
            if most >= _MANY_REPEATS:
                yield lead, _sample(body)
            lead += _sample(body) * max(least, 1 if most else 0)
            continue
        for inner in _list_bodies(op, argument):
            yield from _walk_repeats(inner, lead)
        lead += _sample([(op, argument)])


def _list_bodies(op: Any, argument: Any) -> list[Any]:
    if op is sre.SUBPATTERN:
        return [argument[3]]
    if op is sre.BRANCH:
        return list(argument[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return [argument] if op is sre.ATOMIC_GROUP else []


def _sample(tree: Any) -> str:
    """Build a short text that a part of a pattern matches."""
    return "".join(_sample_one(op, argument) for op, argument in tree)


def _sample_one(op: Any, argument: Any) -> str:
    if op in _REPEATS:
        return _sample(argument[2]) * int(max(argument[0], 1 if argument[1] else 0))
    if op is sre.ANY:
        return "a"
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return ""
    bodies = _list_bodies(op, argument)
    return _sample(bodies[0]) if bodies else next(iter(_list_characters(op, argument)), "")


def _walk_characters(tree: Any) -> Iterator[str]:
    for op, argument in tree:
        yield from _list_characters(op, argument)
        bodies = [argument[2]] if op in _REPEATS else _list_bodies(op, argument)
        for body in bodies:
            yield from _walk_characters(body)


def _list_characters(op: Any, argument: Any) -> list[str]:
    """List a few of the characters that one part of a pattern takes."""
    if op is sre.LITERAL:
        return [chr(argument)]
    if op is sre.NOT_LITERAL:
        return ["b" if argument == ord("a") else "a"]
    if op is not sre.IN:
        return []
    literals = [chr(a if o is sre.LITERAL else a[0]) for o, a in argument if o in _WITH_LITERAL]
    known = dict.fromkeys([*_CHARACTERS, *literals])
    return [c for c in known if _is_member(c, argument)][:6]


def _is_member(character: str, members: Any) -> bool:
    code = ord(character)
    found = any(
        (op is sre.LITERAL and argument == code)
        or (op is sre.RANGE and argument[0] <= code <= argument[1])
        or (op is sre.CATEGORY and _CATEGORIES[argument](character))
        for op, argument in members
    )
    return found is not (members[0][0] is sre.NEGATE)


_WITH_LITERAL = {sre.LITERAL, sre.RANGE}
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    sre.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    sre.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}
