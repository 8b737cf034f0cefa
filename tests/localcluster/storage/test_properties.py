"""Laws that hold for every history of requests (hypothesis draws the histories)."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.apiserver.engine.history import DELETED
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import DeleteOptions, StatusError
from tests.localcluster.storage.worlds import NAMESPACE, World, config_map, owned_by

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
    rt = world.type("configmaps")
    try:
        if action == "create":
            world.create("configmaps", config_map(name, metadata=owner_of(world, str(argument))))
        elif action == "patch":
            world.merge("configmaps", name, {"data": {"k": argument}})
        elif action == "label":
            world.merge("configmaps", name, {"metadata": {"labels": {"on": argument}}})
        elif action == "hold":
            finalizers = ["example.com/hold"] if argument else []
            world.merge("configmaps", name, {"metadata": {"finalizers": finalizers}})
        elif action == "delete":
            policy = None if argument is None else str(argument)
            world.storage.delete(rt, NAMESPACE, name, DeleteOptions(propagation=policy))
        else:
            world.storage.collect_garbage_once()
    except StatusError as error:
        assert error.code in (404, 409, 422), error.message  # noqa: PT017 it may also succeed


def owner_of(world: World, name: str) -> Object:
    return owned_by(world.get("configmaps", name)) if world.exists("configmaps", name) else {}


def state_of(world: World, selector: Selector) -> dict[str, Object]:
    items = world.storage.list(world.type("configmaps"), NAMESPACE, selector).items
    return {item["metadata"]["name"]: item for item in items}


@given(steps=st.lists(STEPS, max_size=25), label=st.sampled_from([None, "on=yes", "on!=yes"]))
def test_list_and_all_events_since_give_the_list_now(
    steps: list[tuple[str, str, object]], label: str | None
) -> None:
    world = World()
    selector = Selector(label=label)
    starts = []
    for step in steps:
        starts.append((world.storage.resource_version, state_of(world, selector)))
        take(world, step)
    now = state_of(world, selector)
    for version, seen in starts:
        watch = world.storage.watch_from(world.type("configmaps"), NAMESPACE, selector, version)
        last = version
        for event in watch.pop():
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
        past = world.storage.list(
            world.type("configmaps"), NAMESPACE, selector, resource_version=version, exact=True
        )
        assert past.resource_version == str(version)


def without_version(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": ""}}


@given(steps=st.lists(STEPS, max_size=25))
def test_collection_ends_and_leaves_no_dependent_of_the_gone(
    steps: list[tuple[str, str, object]],
) -> None:
    world = World()
    for step in steps:
        take(world, step)
    world.storage.collect_garbage()
    assert world.storage.collect_garbage() == 0
    held = state_of(world, Selector())
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
        seen = state_of(world, Selector())
        take(world, step)
        past = world.storage.list(
            world.type("configmaps"), NAMESPACE, resource_version=before, exact=True
        )
        assert {item["metadata"]["name"]: item for item in past.items} == seen
