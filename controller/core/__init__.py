"""The pure core: from a Snapshot to a Decision, without a clock, I/O, random numbers or logging.

Snapshot, Settings -> decide -> Decision: status, roster, actions, Events, wake time

decide.py     the steps of one decision
draft.py      the status while the steps change it, and the actions they ask for
machines/     the states of the Framework, of its Tasks and of its scale
policies/     questions of the machines: complete, retry, pause, keep, limit, coalesce
objects/      the ConfigMap, the Pods and the gang key: ownership and bodies
roster/       the roster, which agents read: generations, missing Tasks, drain
recovery/     restart in place: epochs, start barriers, members that come late
leaving/      Tasks that leave their nodes
status/       new entries, conditions, Events, progress of the training, the size of texts
history/      the logged copies of objects that are replaced
"""
