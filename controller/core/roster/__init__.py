"""The roster: which generation the attempt ConfigMap carries, its readiness, and its drains."""
