import pytest

from controller.config.pod_failure import Regex, RegexError


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b+", "abbbc", "bbb"),
        ("(?i)^evicted$", "Evicted", "Evicted"),
        ("(?i)^evicted$", "Evicted\n", None),
        ("(?ms).*", "two\nlines", "two\nlines"),
        (".*", "two\nlines", "two"),
        ("", "anything", ""),
        ("a|ab", "ab", "a"),
        ("ü.", "für", "ür"),
    ],
    ids=[
        "unanchored", "case", "end-is-text", "dot-all", "one-line", "empty", "leftmost", "unicode",
    ],
)  # fmt: skip
def test_regex_find_returns_the_first_match_as_go_does(
    pattern: str, text: str, found: str | None
) -> None:
    assert Regex(pattern).find(text) == found


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(?=a)", r"\1"])
def test_regex_outside_the_dialect_is_refused_in_silence(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RegexError):
        Regex(pattern)
    assert capfd.readouterr().err == ""


def test_regex_of_a_hostile_pattern_takes_linear_time() -> None:
    assert Regex("(a*)*b").find("a" * 20000) is None
