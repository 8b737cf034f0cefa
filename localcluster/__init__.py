"""A Kubernetes on one machine: an API server, and a kubelet that runs Pods as processes.

The ``framework`` program and tests use it. The controller and the agents never import it.
"""
