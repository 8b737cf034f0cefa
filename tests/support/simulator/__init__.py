"""A seeded simulation of a cluster with the real controller, in virtual time.

The loop of ``Simulation.run``:

    start a controller, create a Framework
    STEPS times:    draw a step and a pause -> run them -> check
    switch off all faults, restore names and clocks
    until nothing changes for 40 s:    advance all Pods, collect garbage, 1 s -> check
    60 s without a change -> check that the final state is the state of the spec

A step is an action of a user, a kubelet, the garbage collector or another client, or a fault of the
network, a clock or a controller. All of them, and the controllers, are tasks of one event loop with
virtual time. Each draw comes from one generator, so the same seed gives the same run. A check fails
with the trace of the run and its seed (``SEEDS=17-17`` repeats seed 17).

    simulation.py   the loop, the faults, the table of steps with their weights
    cluster.py      users, kubelets, the garbage collector and other clients on one storage
    specs.py        draws specs and edits of them
    program.py      a controller process: start, stall, kill
    network.py      loses, delays, repeats and refuses requests and watch events
    auditor.py      sees each request and each write, and collects violations of invariants
    ledger.py       checks ends and retries against the policies, computed independently
    rosters.py      checks rosters and drains
    final_state.py  checks the state that must be reached when all faults are off

The codes of the checks are those of docs/design/invariants.md.
"""
