"""The pure core: from a Snapshot to a Decision, without a clock, I/O, random numbers or logging.

Snapshot, Settings -> decide -> Decision: status, roster, actions, Events, wake time

decide.py     the steps of one decision
draft.py      the status while the steps change it, and the actions they ask for
machines/     what moves states: Framework, Task, scale
policies/     what the machines ask: complete, retry, pause, keep, limit, coalesce
objects/      the ConfigMap, the Pods and the gang key: which are ours, and how they look
roster/       what the agents read: generations, progress, drain
status/       new entries, conditions, the size of texts
history/      what is logged of objects that are replaced
"""
