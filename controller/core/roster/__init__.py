"""The roster: which generation the attempt ConfigMap carries, its progress, and its drains."""
