"""docs/api.md lists every completion code, with its phrase and its type."""

import re
from pathlib import Path

from controller.config.config_file import load_config
from framework.api.completion import PREDEFINED

API = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def test_completion_codes_are_those_of_the_docs() -> None:
    section = API.partition("\n## Completion codes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (-?\d+) \| (\w+) \| ([\w, ]+) \| \S", section, re.MULTILINE)
    rules = load_config(None, {}, strict=True).config.pod_failure_rules
    expected = {code: (phrase, type_) for code, (phrase, type_) in PREDEFINED.items()}
    expected |= {rule.code: (rule.phrase, rule.type) for rule in rules}
    assert {int(code): (phrase, kind) for code, phrase, kind in rows} == {
        code: (phrase, ", ".join([type_.name, *(type_.attributes or ())]))
        for code, (phrase, type_) in expected.items()
    }
