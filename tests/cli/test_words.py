import json

import pytest

from cli.words import explain_diagnostics, find_cut_message, strip_noise

LONG = ("a frame of the stack, and another one " * 6).strip()


def pod_failed(code: int, message: str) -> str:
    """Write the diagnostics of a Pod whose container left this message."""
    container = {"name": "main", "code": code, "reason": "Error", "message": message}
    return f"Pod failed: x: {json.dumps({'containers': [container]})}"


@pytest.mark.parametrize(
    ("diagnostics", "words"),
    [
        (
            'Pod failed: x: {"containers":[{"name":"a","code":0},{"name":"main","code":3}]}',
            "main exited with 3",
        ),
        (
            'Pod failed: x: {"containers":[{"name":"main","signal":9,"reason":"OOMKilled"}]}',
            "main was killed by SIGKILL (OOMKilled)",
        ),
        (
            'Pod failed: PodPattern matched: {"reason":"Evicted","message":"low on disk"}',
            "Evicted: low on disk",
        ),
        (
            'Failed to create Pod: {"ErrStatus":{"message":"Pod \\"x\\" is invalid","code":422}}',
            'Pod refused: Pod "x" is invalid',
        ),
        ("Pod failed: PodPattern matched: {}", "Pod failed: PodPattern matched: {}"),
        ("Failed to create Pod: timed out {", "Failed to create Pod: timed out {"),
        ("User has requested to stop", "User has requested to stop"),
        (
            pod_failed(1, "Traceback (most recent call last):\n" + LONG + "\nKeyError: 7\n  \n==="),
            "main exited with 1; last output: KeyError: 7",
        ),
        (pod_failed(137, ""), "main was killed by SIGKILL (exit code 137)"),
        (pod_failed(1, "first\n\nsecond\n"), "main exited with 1; last output: first; second"),
        (pod_failed(1, LONG), f"main exited with 1; last output: {LONG}"),
        (pod_failed(1, "=" * 200), f"main exited with 1; last output: {'=' * 200}"),
        (
            pod_failed(
                210,
                '{"exitCode":210,"reason":"BadConfig","message":"FB_MEMBERS: no role x",'
                '"waitedSeconds":0.1}',
            ),
            "main exited with 210 (BadConfig: FB_MEMBERS: no role x)",
        ),
        (pod_failed(1, '{"loss": 3}'), 'main exited with 1; last output: {"loss": 3}'),
    ],
    ids=[
        "exit",
        "signal",
        "pod",
        "refused",
        "empty",
        "broken",
        "plain",
        "log",
        "killed",
        "short",
        "one-line",
        "no-words",
        "agent",
        "json",
    ],
)
def test_explain_diagnostics_says_it_in_words(diagnostics: str, words: str) -> None:
    assert explain_diagnostics(diagnostics) == words


def test_find_cut_message_gives_what_explain_diagnostics_leaves_out() -> None:
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
def test_find_cut_message_of_what_is_said_whole_gives_nothing(diagnostics: str) -> None:
    assert find_cut_message(diagnostics) is None


def test_strip_noise_leaves_the_address() -> None:
    noisy = "GET /x: Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed]"
    assert strip_noise(noisy) == "GET /x: Cannot connect to host 127.0.0.1:1 [Connect call failed]"
