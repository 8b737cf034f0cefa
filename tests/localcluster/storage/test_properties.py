"""Laws that hold for every history of requests (hypothesis draws the histories)."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.apiserver.engine.history import DELETED
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import ListResult, StatusError
from tests.contract.apiclient import config_map, owned_by
from tests.localcluster.storage.worlds import NAMESPACE, World

NAMES = st.sampled_from(["a", "b", "c"])
POLICIES = st.sampled_from([None, "Background", "Foreground", "Orphan"])
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, NAMES),
    st.tuples(st.just("patch"), NAMES, st.sampled_from(["1", "2"])),
    st.tuples(st.just("label"), NAMES, st.sampled_from(["yes", "no"])),
    st.tuples(st.just("hold"), NAMES, st.booleans()),
    st.tuples(st.just("delete"), NAMES, POLICIES),
    st.tuples(st.just("collect"), st.none(), st.none()),
)


def take(world: World, step: tuple[str, str, object]) -> None:
    action, name, argument = step
    try:
        if action == "create":
            owners = [
                world.get("configmaps", n) for n in world.names("configmaps") if n == argument
            ]
            references = [reference for owner in owners for reference in owned_by(owner)]
            world.create("configmaps", config_map(name, ownerReferences=references))
        elif action == "patch":
            world.merge("configmaps", name, {"data": {"k": argument}})
        elif action == "label":
            world.merge("configmaps", name, {"metadata": {"labels": {"on": argument}}})
        elif action == "hold":
            finalizers = ["example.com/hold"] if argument else []
            world.merge("configmaps", name, {"metadata": {"finalizers": finalizers}})
        elif action == "delete":
            world.delete("configmaps", name, propagation=argument)
        else:
            world.storage.collect_garbage_once()
    except StatusError as error:
        assert error.code in (404, 409, 422), error.message  # noqa: PT017 it may also succeed


def read_state(world: World, label: str | None = None) -> dict[str, Object]:
    items = world.objects("configmaps", label=label)
    return {item["metadata"]["name"]: item for item in items}


@given(steps=st.lists(STEPS, max_size=25), label=st.sampled_from([None, "on=yes", "on!=yes"]))
def test_list_and_all_events_since_give_the_list_now(
    steps: list[tuple[str, str, object]], label: str | None
) -> None:
    world = World()
    starts = []
    for step in steps:
        starts.append((world.storage.resource_version, read_state(world, label)))
        take(world, step)
    now = read_state(world, label)
    for version, seen in starts:
        last = version
        for event in world.watch("configmaps", version, label=label).pop():
            assert event.resource_version > last
            last = event.resource_version
            name = event.object["metadata"]["name"]
            if event.type == DELETED:
                assert name in seen
                del seen[name]
            else:
                assert (name in seen) == (event.type == "MODIFIED")
                seen[name] = event.object
        assert {name: without_version(obj) for name, obj in seen.items()} == {
            name: without_version(obj) for name, obj in now.items()
        }
        assert list_past(world, version, label).resource_version == str(version)


def list_past(world: World, version: int, label: str | None = None) -> ListResult:
    rt, selector = world.type("configmaps"), Selector(label=label)
    return world.storage.list(rt, NAMESPACE, selector, resource_version=version, exact=True)


def without_version(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": ""}}


@given(steps=st.lists(STEPS, max_size=25))
def test_collection_ends_and_leaves_no_dependent_of_a_deleted_owner(
    steps: list[tuple[str, str, object]],
) -> None:
    world = World()
    for step in steps:
        take(world, step)
    world.storage.collect_garbage()
    assert world.storage.collect_garbage() == 0
    held = read_state(world)
    uids = {obj["metadata"]["uid"] for obj in held.values()}
    for obj in held.values():
        metadata = obj["metadata"]
        owners = {owner["uid"] for owner in metadata.get("ownerReferences", ())}
        is_held = "example.com/hold" in metadata.get("finalizers", ())
        is_waiting = bool(metadata.get("deletionTimestamp"))
        assert not owners or owners <= uids or (is_waiting and metadata.get("finalizers"))
        assert not is_waiting or is_held or metadata.get("finalizers") == ["foregroundDeletion"]


@given(steps=st.lists(STEPS, max_size=20))
def test_objects_are_never_changed_in_place(steps: list[tuple[str, str, object]]) -> None:
    world = World()
    for step in steps:
        before = world.storage.resource_version
        seen = read_state(world)
        take(world, step)
        items = list_past(world, before).items
        assert {item["metadata"]["name"]: item for item in items} == seen
