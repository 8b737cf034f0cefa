import pytest

from localcluster.kubelet.fields import expand

VARIABLES = {"A": "1", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x-$(A)-$(A)", "x-1-1", id="several"),
        pytest.param("$(B)", "$(A)", id="values are not expanded again"),
        pytest.param("$(NONE)", "$(NONE)", id="unknown is kept"),
        pytest.param("$(EMPTY)|", "|", id="empty"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$$$(A)", "$1", id="escape, then reference"),
        pytest.param("$A ${A} $", "$A ${A} $", id="shell's own syntax"),
        pytest.param("$(A", "$(A", id="not closed"),
        pytest.param("$()", "$()", id="no name"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_expand_text_follows_the_kubelets_rules(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected
