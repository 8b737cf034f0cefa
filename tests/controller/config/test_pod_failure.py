import pytest

from controller.config.pod_failure import Regex, RegexError
from tests.support.builders.cases import cases


@cases(
    "pattern text found",
    unanchored=("b+", "abbbc", "bbb"),
    case=("(?i)^evicted$", "Evicted", "Evicted"),
    end_is_text=("(?i)^evicted$", "Evicted\n", None),
    dot_all=("(?ms).*", "two\nlines", "two\nlines"),
    one_line=(".*", "two\nlines", "two"),
    empty=("", "anything", ""),
    leftmost=("a|ab", "ab", "a"),
    unicode=("ü.", "für", "ür"),
)
def test_regex_finds_the_first_match_as_go_does(pattern: str, text: str, found: str | None) -> None:
    assert Regex(pattern).find(text) == found


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(?=a)", r"\1"])
def test_regex_of_another_dialect_is_refused(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RegexError):
        Regex(pattern)
    assert capfd.readouterr().err == ""


def test_regex_of_a_hostile_pattern_takes_linear_time() -> None:
    assert Regex("(a*)*b").find("a" * 20000) is None
