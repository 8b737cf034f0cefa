"""Makes new inputs from known ones. Seeded: equal seeds give equal inputs.

``pump`` is what finds costs that grow faster than the input: it repeats a part many times.
"""

import random

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
    if rng.random() < 0.1:
        result = pump(result, rng)
    return result[:max_bytes]


def pump(data: bytes, rng: random.Random) -> bytes:
    """Repeat a part of the input until it is large."""
    if not data:
        return data
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 2, 4, 8, 16, 64, 256)))
    times = rng.choice(_PUMPED_BYTES) // (end - start)
    return data[:start] + data[start:end] * times + data[end:]


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
