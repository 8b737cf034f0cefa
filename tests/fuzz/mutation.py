"""Makes new inputs from known ones. Seeded: equal seeds give equal inputs.

``pump`` and ``grow`` find costs that grow faster than the input: they repeat a part of it many
times, the one in any text, the other in a JSON value.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

_TOKENS = tuple(
    token.encode()
    for token in (
        *("{}", "[]", "null", "true", "false", '""', "-1", "0", "1e309", "1E400", "9" * 400),
        *("9999", "10000", "0-9999", "0-9999,0-9999", "-9223372036854775809", "1.5", "NaN"),
        *("[" * 200, '{"a":' * 200, "]", "}", ",", ":", '"', "\\", "\\ud800", "\\u0000", "\n"),
        *("&a [*a]", "*a", "<<: *a", "? ", "- - - - ", "!!python/object", "!!binary ", "---\n"),
        *("eyJ", "eyJ" * 50, "bearer ", "token", "%s", "${A}", "$(A)", "../", "\x00", "\x1b]52;"),
        *("a=1,", "worker=4", "==", "::", "fd00::1", "256.256.256.256", "e" * 300, "2026-01-01"),
    )
)
_PUMPED_BYTES = (4096, 32768, 65536, 65536, 262144)


def mutate(data: bytes, others: list[bytes], rng: random.Random, max_bytes: int) -> bytes:
    """Return a variant of ``data``; ``others`` are inputs that it may be crossed with."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        _change(changed, others, rng)
    result = bytes(changed)
    kind = rng.random()
    if kind < 0.05:
        result = pump(result, rng)
    elif kind < 0.08:
        result = grow(data, rng, min(max_bytes, rng.choice(_PUMPED_BYTES)))
    return result[:max_bytes]


def pump(data: bytes, rng: random.Random) -> bytes:
    """Repeat a part of the input until it is large."""
    if not data:
        return data
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 2, 4, 8, 16, 64, 256)))
    times = rng.choice(_PUMPED_BYTES) // (end - start)
    return data[:start] + data[start:end] * times + data[end:]


def grow(data: bytes, rng: random.Random, size: int) -> bytes:
    """Give one list or object of a JSON text many more members, about ``size`` bytes of them."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return pump(data, rng)
    containers = [found for found in _walk(value) if found]
    if not containers or len(data) >= size:
        return data
    chosen = rng.choice(containers)
    times = size // max(1, len(json.dumps(chosen)))
    if isinstance(chosen, list):
        chosen *= min(times, size)
    else:
        members = list(chosen.items())
        chosen |= {f"{key}{n}": item for n in range(times) for key, item in members}
    return json.dumps(value, separators=(",", ":")).encode()


def _walk(value: Any) -> Iterator[Any]:
    """Yield every list and object of a value."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict | list):
            yield found
            waiting += found.values() if isinstance(found, dict) else found


def _change(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    span = min(len(data) - at, rng.choice((1, 2, 4, 16, 64)))
    kind = rng.randrange(6)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at : at + span] = b""
    elif kind == 2:
        data[at:at] = rng.choice(_TOKENS)
    elif kind == 3:
        data[at : at + span] = rng.choice(_TOKENS)
    elif kind == 4:
        other = rng.choice(others)
        cut = rng.randrange(len(other) + 1)
        data[at:] = other[cut:]
    else:
        data[at:at] = bytes(data[at : at + span])
