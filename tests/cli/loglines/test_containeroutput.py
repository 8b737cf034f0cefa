"""The output of a container, as lines that are safe to show."""

import pytest

from cli.loglines.containeroutput import MAX_LINE_BYTES, OutputLines, split_output


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\n\r\ntwo", ["one", "", "two"]),
        (b"\x1b[1;32mINFO\x1b[0m ok\n", ["INFO ok"]),
        (b"\r 10%|#\r 20%|##\r\n", [" 10%|#", " 20%|##"]),
        (b"\x1b[A\x1b[K 10%\n", [" 10%"]),
        (b"a\tb\n", ["a\tb"]),
        ("größe 🚀\n".encode(), ["größe 🚀"]),
        (b"\x1b]52;c;aGk=\x07\n", ["\\x1b]52;c;aGk=\\x07"]),
        (b"\x1b[2J\x1b[31\x1b[0m\n", ["\\x1b[2J\\x1b[31"]),
        (b"\xff\xc2\x9b1m\n", ["\\xff\\x9b1m"]),
        (b"back\x08\x00\n", ["back\\x08\\x00"]),
        (b"", []),
        (b"\n", [""]),
        (b"last\r", ["last"]),
    ],
)
def test_output_is_shown_as_lines_without_what_a_terminal_obeys(
    raw: bytes, lines: list[str]
) -> None:
    assert split_output(raw) == lines
    pieces = OutputLines()
    one_by_one = [line for i in range(len(raw)) for line in pieces.feed(raw[i : i + 1])]
    assert one_by_one + pieces.finish() == lines


def test_output_without_line_ends_is_broken_between_characters() -> None:
    raw = "ä".encode() * MAX_LINE_BYTES + b"\nnext\n"
    lines = split_output(b"a" + raw)
    assert "".join(lines) == "a" + "ä" * MAX_LINE_BYTES + "next"
    assert max(len(line.encode()) for line in lines) <= MAX_LINE_BYTES
    pieces = OutputLines()
    for _ in range(100):
        pieces.feed(b"x" * MAX_LINE_BYTES)
    assert len(b"".join(line.encode() for line in pieces.finish())) <= MAX_LINE_BYTES
