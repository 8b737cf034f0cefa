"""Settings given as annotations of the Pod: the kubelet's file, and what comes before what."""

from pathlib import Path

import pytest

from rendezvous.settings.annotations import list_ignored, parse_annotations, read_annotations
from rendezvous.settings.options import OPTIONS

PREFIX = "frameworkbarrier.io/"


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        ("", ""),
        ("worker=2222,ps=2223", "worker=2222,ps=2223"),
        (r"echo \"a\\b\" $X", r'echo "a\b" $X'),
        (r"a\nb\tc\r\a\b\f\v", "a\nb\tc\r\a\b\f\v"),
        (r"\x7f\u00ad\U0001f600\u2028", "\x7f\xad\U0001f600\u2028"),
        ("größe", "größe"),
        (r"\U7fffffff", "\ufffd"),
    ],
)
def test_value_is_read_as_go_quotes_it(quoted: str, value: str) -> None:
    text = f'before="1"\n{PREFIX}x="{quoted}"\nafter="2"\n'
    assert parse_annotations(text) == {"before": "1", PREFIX + "x": value, "after": "2"}


@pytest.mark.parametrize("line", ["x", "x=1", 'x="1', 'x="1"2"', '="1"', 'x="\\"', "\x00"])
def test_line_that_is_none_is_left_out(line: str) -> None:
    assert parse_annotations(f'{line}\na="b"') == {"a": "b"}


def test_file_need_not_be_there_unless_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "annotations"
    assert read_annotations({}) == {}
    with pytest.raises(FileNotFoundError):
        read_annotations({"FB_ANNOTATIONS_FILE": str(file)})
    file.write_text('a="b"')
    assert read_annotations({"FB_ANNOTATIONS_FILE": str(file)}) == {"a": "b"}


def test_annotation_names_are_told_apart() -> None:
    names = [setting.annotation for setting in OPTIONS]
    assert len(set(names)) == len(names)
    given = [setting.annotation for setting in OPTIONS if setting.by_annotation]
    known = dict.fromkeys([*given, PREFIX + "wrapper", PREFIX + "acknowledged-generation"], "")
    (line,) = list_ignored({**known, PREFIX + "prots": ""})
    assert line == f"annotation {PREFIX}prots: there is no such setting"
