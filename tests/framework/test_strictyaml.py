import pytest
import yaml

from framework.strictyaml import (
    Document,
    LoaderClass,
    ShallowLoader,
    YamlError,
    load_document,
    load_documents,
)

ALIASES = "a0: &a0 [1]\n" + "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)
)


def load(text: str) -> object:
    (document,) = load_documents(text, "f.yaml")
    return document.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-01-01", "2020-01-01"),
        ("1:30", "1:30"),
        ("22:22", "22:22"),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b101", 5),
        ("-5", -5),
        ("1_000", 1000),
        ("08", "08"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("''", ""),
        ("'1'", "1"),
        ("1.2.3", "1.2.3"),
        ("abc", "abc"),
    ],
)
def test_load_documents_reads_scalars_as_go_does(text: str, value: object) -> None:
    found = load(f"key: {text}")
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


def test_load_documents_of_several_gives_the_line_of_each() -> None:
    text = "# nothing\n---\na: 1\n---\n---\nb:\n  c: 2\n"
    assert load_documents(text, "f") == [Document(3, {"a": 1}), Document(6, {"b": {"c": 2}})]


def test_load_documents_of_nothing_is_empty() -> None:
    assert load_documents("# only a comment\n", "f") == []


def test_load_documents_turns_keys_into_text() -> None:
    assert load("1: a\non: b\nnull: c\n") == {"1": "a", "on": "b", "null": "c"}


def test_load_documents_with_anchors_and_merge_keys_expands_them() -> None:
    text = "base: &base {a: 1, b: 2}\nother:\n  <<: *base\n  b: 3\n"
    assert load(text) == {"base": {"a": 1, "b": 2}, "other": {"a": 1, "b": 3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key 'a' is given twice; keep one"),
        ("x:\n  a: 1\n  a: 1\n", "f.yaml:3:3: key 'a' is given twice; keep one"),
        ("a: [1", "f.yaml:1:6: while parsing a flow sequence, expected"),
        ("a:\n\tb: 1", "f.yaml:2:1: while scanning for the next token"),
        ("a:\n\tb: 1", "; indent with spaces, not with tabs"),
        ("a: b: c", "f.yaml:1:5: mapping values are not allowed here; check the indentation of"),
        ("a: [1", "but got '<stream end>'; a `[` or `{` before is not closed"),
        ("a:\n  b: 1\n c: 2", "but found '<block mapping start>'; indent this line as"),
        ('a: "b\nc: 1', "; a quote before is not closed"),
        ("a: 1\nb\nc: 2", "; check the line before: write `key: value`"),
        ("a: @b", "; put the value into quotes"),
        ("? [1]\n: 2", "f.yaml:1:3: a key must be a string"),
        ("a: !!python/object:os.system 1", "f.yaml:1:4: could not determine a constructor"),
        ("a: &a [*a]", "f.yaml:1:4: nested deeper than 100 levels"),
        ("a: " + "[" * 300 + "]" * 300, "nested deeper than 100 levels"),
        ("a: \x00", "f.yaml: "),
    ],
    ids=[
        "duplicate", "nested-duplicate", "unclosed", "tab", "tab-remedy", "two-colons",
        "unclosed-remedy", "indentation", "quote", "colon", "reserved",
        "list-as-key", "tag", "recursion", "deep", "control",
    ],
)  # fmt: skip
def test_load_documents_of_bad_text_names_the_place(text: str, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        load_documents(text, "f.yaml")
    assert message in str(caught.value)


def test_load_documents_of_aliases_of_aliases_gives_up() -> None:
    with pytest.raises(YamlError, match="larger than"):
        load_documents(ALIASES, "f")


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(YamlError, match="nested deeper"):
        load_documents("[" * 100_000, "deep.yaml")


LOADERS = pytest.mark.parametrize("loader_class", [ShallowLoader, yaml.CSafeLoader])


@LOADERS
def test_load_document_reads_scalars_as_the_loader_does(loader_class: LoaderClass) -> None:
    assert load_document("a: [on, 1]", loader_class) == {"a": [True, 1]}
    assert load_document(b"a: b", loader_class) == {"a": "b"}
    assert load_document("# nothing", loader_class) is None


@LOADERS
@pytest.mark.parametrize(
    "text", ["a: 1\n---\na: 2", "a: [", "a: &a [*a]", "[" * 200 + "]" * 200, ALIASES]
)
def test_load_document_of_large_or_illegal_text_is_refused(
    loader_class: LoaderClass, text: str
) -> None:
    with pytest.raises(yaml.YAMLError):
        load_document(text, loader_class)


@pytest.mark.parametrize("digits", ["1" * 5000, "0x" + "f" * 4000, "0" + "7" * 5000])
def test_integers_that_cannot_be_written_are_refused(digits: str) -> None:
    with pytest.raises(YamlError, match="an integer has more than 1000 digits"):
        load_documents(f"a: {digits}", "x.yaml")
