import pytest

from cli.words import explain_diagnostics, strip_noise


@pytest.mark.parametrize(
    ("diagnostics", "words"),
    [
        (
            'Pod failed: x: {"containers":[{"name":"a","code":0},{"name":"main","code":3}]}',
            "main exited with 3",
        ),
        (
            'Pod failed: x: {"containers":[{"name":"main","signal":9,"reason":"OOMKilled"}]}',
            "main was killed by signal 9 (OOMKilled)",
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
    ],
    ids=["exit", "signal", "pod", "refused", "empty", "broken", "plain"],
)
def test_explain_diagnostics_says_it_in_words(diagnostics: str, words: str) -> None:
    assert explain_diagnostics(diagnostics) == words


def test_strip_noise_leaves_the_address() -> None:
    noisy = "GET /x: Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed]"
    assert strip_noise(noisy) == "GET /x: Cannot connect to host 127.0.0.1:1 [Connect call failed]"
