import pytest

from localcluster.kubelet.container.path_replacement import PathReplacement

PATHS = {"/mnt/data": "/H/data", "/mnt/data/deep": "/H/deep", "/mnt/frameworkbarrier/": "/H/fb"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/mnt/data", "/H/data"),
        ("/mnt/data/x.txt", "/H/data/x.txt"),
        ("/mnt/data/deep/x", "/H/deep/x"),
        (". /mnt/frameworkbarrier/injector.sh", ". /H/fb/injector.sh"),
        ("echo >/mnt/data/a 2>/mnt/data/b", "echo >/H/data/a 2>/H/data/b"),
        ("--dir=/mnt/data", "--dir=/H/data"),
        ("PATH=/bin:/mnt/data:/x", "PATH=/bin:/H/data:/x"),
        ("open('/mnt/data')", "open('/H/data')"),
        ("$(cat /mnt/data/a)", "$(cat /H/data/a)"),
        ("/mnt/database", "/mnt/database"),
        ("/mnt/data.bak", "/mnt/data.bak"),
        ("/mnt/data-2", "/mnt/data-2"),
        ("/srv/mnt/data", "/srv/mnt/data"),
        ("${ROOT}/mnt/data", "${ROOT}/mnt/data"),
        ("/mnt", "/mnt"),
    ],
)
def test_path_replacement_text_changes_whole_paths_only(text: str, expected: str) -> None:
    assert PathReplacement(PATHS).apply(text) == expected


def test_path_replacement_root_and_nothing_leave_text_alone() -> None:
    assert PathReplacement({"/": "/H"}).apply("/ /mnt") == "/ /mnt"
    assert PathReplacement({}).apply("/mnt") == "/mnt"
