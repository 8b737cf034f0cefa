"""Each change is shown once: also after a connection was lost, or the server forgot its history."""

from cli.see.watching import Changes
from framework.kube.resources import Object


def build(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def watch(*known: Object) -> tuple[Changes, list[str]]:
    shown: list[str] = []

    def show(item: Object) -> None:
        metadata = item["metadata"]
        shown.append(f"{metadata['name']}@{metadata['resourceVersion']}")

    return Changes(known, show), shown


def test_first_list_shows_only_what_changed_since_the_list_before() -> None:
    changes, shown = watch(build("a", 1), build("b", 1))
    changes.replace([build("a", 1), build("b", 3), build("c", 2)], "3")
    assert shown == ["b@3", "c@2"]


def test_change_that_comes_twice_is_shown_once() -> None:
    changes, shown = watch()
    changes.replace([], "0")
    for _ in range(2):
        changes.apply("MODIFIED", build("a", 4))
    assert shown == ["a@4"]


def test_list_after_a_lost_history_shows_what_was_missed() -> None:
    changes, shown = watch()
    changes.apply("ADDED", build("a", 1))
    changes.apply("ADDED", build("b", 2))
    changes.replace([build("a", 1), build("b", 9)], "9")
    assert shown == ["a@1", "b@2", "b@9"]


def test_object_that_was_deleted_and_created_again_is_shown_again() -> None:
    changes, shown = watch(build("a", 1))
    changes.apply("DELETED", build("a", 2))
    changes.apply("ADDED", build("a", 2))
    assert shown == ["a@2", "a@2"]


def test_change_of_a_table_shows_its_rows() -> None:
    rows: list[Object] = []
    row = {"cells": ["a"], "object": build("a", 5)}
    Changes((), rows.append).apply("MODIFIED", {"kind": "Table", "rows": [row]})
    assert rows == [row]
