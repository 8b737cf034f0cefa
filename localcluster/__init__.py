"""The embedded one-machine Kubernetes: an API server and a kubelet that runs Pods as processes.

Called by the ``framework`` program and by tests. Nothing here is imported by the controller or by
the agents.
"""
