import json

import pytest

from cli.texts.diagnostics import explain_diagnostics, find_cut_message, strip_noise

LONG = ("a frame of the stack, and another one " * 6).strip()


def pod_failed(code: int, message: str) -> str:
    """Build the diagnostics of a Pod whose container left this termination message."""
    container = {"name": "main", "code": code, "reason": "Error", "message": message}
    return f"Pod failed: x: {json.dumps({'containers': [container]})}"


TRACEBACK = f"Traceback (most recent call last):\n{LONG}\nKeyError: 7\n  \n==="
AGENT = (
    '{"exitCode":210,"reason":"BadConfig","message":"FB_MEMBERS: no role x","waitedSeconds":0.1}'
)
LAST = "main exited with 1; last output:"
WORDS = {
    "exit": (
        'Pod failed: x: {"containers":[{"name":"a","code":0},{"name":"main","code":3}]}',
        "main exited with 3",
    ),
    "signal": (
        'Pod failed: x: {"containers":[{"name":"main","signal":9,"reason":"OOMKilled"}]}',
        "main was killed by SIGKILL (OOMKilled)",
    ),
    "pod": (
        'Pod failed: PodPattern matched: {"reason":"Evicted","message":"low on disk"}',
        "Evicted: low on disk",
    ),
    "refused": (
        'Failed to create Pod: {"ErrStatus":{"message":"Pod \\"x\\" is invalid","code":422}}',
        'Pod refused: Pod "x" is invalid',
    ),
    "empty": ("Pod failed: PodPattern matched: {}", "Pod failed: PodPattern matched: {}"),
    "broken": ("Failed to create Pod: timed out {", "Failed to create Pod: timed out {"),
    "plain": ("User has requested to stop", "User has requested to stop"),
    "log": (pod_failed(1, TRACEBACK), f"{LAST} KeyError: 7"),
    "killed": (pod_failed(137, ""), "main was killed by SIGKILL (exit code 137)"),
    "short": (pod_failed(1, "first\n\nsecond\n"), f"{LAST} first; second"),
    "one-line": (pod_failed(1, LONG), f"{LAST} {LONG}"),
    "no-words": (pod_failed(1, "=" * 200), f"{LAST} {'=' * 200}"),
    "agent": (pod_failed(210, AGENT), "main exited with 210 (BadConfig: FB_MEMBERS: no role x)"),
    "json": (pod_failed(1, '{"loss": 3}'), f'{LAST} {{"loss": 3}}'),
}


@pytest.mark.parametrize(("diagnostics", "words"), WORDS.values(), ids=WORDS)
def test_explain_diagnostics_returns_a_sentence(diagnostics: str, words: str) -> None:
    assert explain_diagnostics(diagnostics) == words


def test_find_cut_message_returns_the_lines_that_explain_diagnostics_cuts() -> None:
    message = f"Traceback:\n  {LONG}\n\nKeyError: 7\n===\n"
    assert find_cut_message(pod_failed(1, message)) == (
        "main",
        ["Traceback:", f"  {LONG}", "KeyError: 7", "==="],
    )


@pytest.mark.parametrize(
    "diagnostics",
    ["plain", "x: {}", pod_failed(1, LONG), pod_failed(1, "a\nb"), pod_failed(1, "")],
    ids=["plain", "empty", "one-line", "short", "none"],
)
def test_find_cut_message_of_a_whole_message_is_none(diagnostics: str) -> None:
    assert find_cut_message(diagnostics) is None


def test_strip_noise_leaves_the_address() -> None:
    noisy = "GET /x: Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed]"
    assert strip_noise(noisy) == "GET /x: Cannot connect to host 127.0.0.1:1 [Connect call failed]"
