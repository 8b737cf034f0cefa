"""The strategy of each resource type, made when the type is first used."""

from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.kinds.crds import Definitions, DefinitionStrategy
from localcluster.apiserver.kinds.customs import CustomStrategy
from localcluster.apiserver.kinds.plain import PLAIN_KINDS
from localcluster.apiserver.kinds.pods import PodStrategy
from localcluster.apiserver.model.registry import ResourceType


class Strategies:
    """The strategies of one state."""

    def __init__(self, state: State) -> None:
        """Serve the types of ``state``'s registry and keep it in step with its CRDs."""
        self._state = state
        self._made: dict[ResourceType, Strategy] = {}
        state.observers.append(Definitions(state).observe)

    def of(self, rt: ResourceType) -> Strategy:
        """Return the strategy of a type."""
        if rt not in self._made:
            self._made[rt] = self._make(rt)
        return self._made[rt]

    def _make(self, rt: ResourceType) -> Strategy:
        if rt.is_custom:
            return CustomStrategy(rt, self._state)
        if rt.plural == "customresourcedefinitions":
            return DefinitionStrategy(rt, self._state)
        if rt.plural == "pods":
            return PodStrategy(rt, self._state)
        return PLAIN_KINDS.get(rt.plural, Strategy)(rt)
