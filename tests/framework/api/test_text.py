import unicodedata

import pytest

from framework.api.text import (
    HIDDEN,
    cut_text,
    describe_server,
    hide_secrets,
    hide_values,
    is_printable,
    make_printable,
)

BAD_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_make_printable_every_character_is_shown_or_escaped() -> None:
    codes = [*range(0x10000), *range(0xE0000, 0xE0200)]
    shown = make_printable("".join(map(chr, codes)))
    assert is_printable(shown)
    assert not set(map(unicodedata.category, shown)) & BAD_CATEGORIES
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", None),
        ("für größe", None),
        ("日本語\u3000全角", None),
        ("done ✔ \u26a0\ufe0f 🚀", None),
        ("a\u00a0b", None),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb\u2066", r"a\u200bb\u2066"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("hidden\u3164", r"hidden\u3164"),
        ("two\r\nlines\t", r"two\r\nlines\t"),
    ],
)
def test_make_printable_escapes_only_characters_that_control_or_hide(
    text: str, shown: str | None
) -> None:
    assert make_printable(text) == (text if shown is None else shown)


def test_make_printable_keeps_given_characters() -> None:
    assert make_printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


@pytest.mark.parametrize("character", ["a", "ü", "\ud800", "🚀"])
def test_cut_text_is_bounded_and_marked(character: str) -> None:
    cut = cut_text(character * 1000, 100)
    assert len(cut.encode("utf-8", "surrogatepass")) <= 100
    assert cut.endswith("...(cut, 1000 characters)")
    for text in ("", "a" * 100, "ü" * 50):
        assert cut_text(text, 100) == text


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("https://10.0.0.1:6443/", "https://10.0.0.1:6443"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("http://127.0.0.1:8080/token/s3cret", "http://127.0.0.1:8080/..."),
        ("https://host/?token=s3cret", "https://host/..."),
        ("https://host?token=s3cret", "https://host/..."),
        ("https://host#s3cret", "https://host/..."),
        ("https://user:s3cret@host:1/x", "https://host:1/..."),
        ("https://user:s3/cret@host", HIDDEN),
        ("https://user:s3?cret@host", HIDDEN),
        ("https://user:s3cret", HIDDEN),
        ("https://a:b:s3cret", HIDDEN),
        ("s3\x1bcret", HIDDEN),
        ("", HIDDEN),
    ],
)
def test_describe_server_shows_scheme_host_and_port_only(address: str, shown: str) -> None:
    assert describe_server(address) == shown


IMAGE = "spec.containers[0].image"
NAME = "spec.containers[0].name"


@pytest.mark.parametrize(
    ("field", "message", "shown"),
    [
        (f'Pod "p" is invalid: {IMAGE}', 'Invalid value: "s3cret": x', "Invalid value: HIDDEN: x"),
        ("a", 'Unsupported value: "s3cret": know: "A"', 'Unsupported value: HIDDEN: know: "A"'),
        (
            "[a",
            'Invalid value: "s3,: \\" cret": x, b: Duplicate value: "s3cret", c: Required]',
            "Invalid value: HIDDEN: x, b: Duplicate value: HIDDEN, c: Required]",
        ),
        ("a", 'Invalid value: {"k":"s3: cret","l":["s3cret"]}: x', "Invalid value: HIDDEN: x"),
        (
            "a",
            'Invalid value: core.Container{Name:"s3cret", Args:[]string{"s3: cret"}}: no',
            "Invalid value: HIDDEN: no",
        ),
        (
            "a",
            'Duplicate value: map[string]interface {}{"name":"A", "value":"s3cret"}',
            "Duplicate value: HIDDEN",
        ),
        ("a", "Invalid value: -5: must be positive", "Invalid value: HIDDEN: must be positive"),
        ("a", "Invalid value: `s3: cret`: no", "Invalid value: HIDDEN: no"),
        ("a", 'Not found: "s3cret"', "Not found: HIDDEN"),
        ("a", 'Invalid value: "s3cret', "Invalid value: HIDDEN"),
        ("a", 'Invalid value: "object": b', 'Invalid value: "object": b'),
        ("a", "Invalid value: must be set", "Invalid value: must be set"),
        ("a", "Too long: may not be more than 3 bytes", "Too long: may not be more than 3 bytes"),
        ("json", "cannot unmarshal, error found in #10 byte of ..|s3cret|..", "cannot unmarshal"),
        ("strconv.ParseInt", 'parsing "s3cret": bad', "parsing HIDDEN: bad"),
        ('pods "gang-worker-0" is forbidden', "exceeded quota", "exceeded quota"),
        (NAME, 'Invalid value: "Bad": must be x', 'Invalid value: "Bad": must be x'),
        (
            "metadata.labels",
            'Invalid value: "no key!": name part must consist of',
            'Invalid value: "no key!": name part must consist of',
        ),
        (
            "metadata.labels",
            'Invalid value: "s3cret!": a valid label must be',
            "Invalid value: HIDDEN: a valid label must be",
        ),
        (NAME, 'Invalid value: {"a":"' + "s3cret" * 50 + '"}: no', "Invalid value: HIDDEN: no"),
    ],
)
def test_hide_values_keeps_field_and_reason(field: str, message: str, shown: str) -> None:
    assert hide_values(f"{field}: {message}") == f"{field}: {shown.replace('HIDDEN', HIDDEN)}"


def test_hide_values_of_a_cause_keeps_a_name() -> None:
    assert hide_values('Invalid value: "x": no', NAME).count("x") == 1
    assert hide_values('Invalid value: "x": no', IMAGE).count("x") == 0


@pytest.mark.parametrize(
    "unit",
    ["Invalid value: ", 'Invalid value: "', "Invalid value: {", "Not found: a{", '\\"', "{", ": "],
)
def test_hide_values_of_hostile_text_ends(unit: str) -> None:
    assert isinstance(hide_values(f"a: Invalid value: {unit * 20_000}"), str)


def test_hide_secrets_removes_all_but_short_secrets() -> None:
    body = b"GET /token-of-mine/api: no get of abc by token-of-me"
    shown = hide_secrets(body, ("/token-of-mine", "token-of-me", "abc", ""))
    assert shown == b"GET [hidden]/api: no get of abc by [hidden]"
