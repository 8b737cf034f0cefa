"""Writes the ConfigMap ``kube-root-ca.crt`` in every namespace, as a controller manager does.

Projected service account volumes read it.
"""

from localcluster.apiserver.engine.history import Change
from localcluster.apiserver.engine.state import NAMESPACES_KEY, State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import Writer
from localcluster.apiserver.model import builtins, objects
from localcluster.apiserver.model.options import WriteOptions

CONFIGMAP_NAME = "kube-root-ca.crt"
_KEY = builtins.CONFIG_MAPS.key


class RootCertificate:
    """Keeps the ConfigMap in every namespace that is not being deleted."""

    def __init__(self, state: State, writer: Writer, strategy: Strategy, pem: str) -> None:
        """Publish ``pem`` by the strategy of ConfigMaps; it is empty for plain HTTP."""
        self._state = state
        self._writer = writer
        self._strategy = strategy
        self._wanted = {"ca.crt": pem}
        self._pending: dict[str, None] = {}
        state.observers.append(self._observe)

    @property
    def is_due(self) -> bool:
        """Return whether a step has an object to check."""
        return bool(self._pending)

    def step(self) -> bool:
        """Write the first ConfigMap that is due; return False if none is."""
        while self._pending:
            namespace = next(iter(self._pending))
            del self._pending[namespace]
            if self._publish(namespace):
                return True
        return False

    def _observe(self, change: Change) -> None:
        if change.type_key == NAMESPACES_KEY:
            self._pending[change.object_key[1]] = None
        elif change.type_key == _KEY and change.object_key[1] == CONFIGMAP_NAME:
            self._pending[change.object_key[0]] = None

    def _publish(self, namespace: str) -> bool:
        owner = self._state.find(NAMESPACES_KEY, ("", namespace))
        if owner is None or objects.is_terminating(owner):
            return False
        held = self._state.find(_KEY, (namespace, CONFIGMAP_NAME))
        if held is None:
            body = {"metadata": {"name": CONFIGMAP_NAME}, "data": self._wanted}
            self._writer.create(self._strategy, namespace, body, WriteOptions())
            return True
        if held.get("data") == self._wanted or held.get("immutable"):
            return False
        new = {**objects.copy_json(held), "data": self._wanted}
        self._writer.replace(self._strategy, held, new, WriteOptions(), None)
        return True
