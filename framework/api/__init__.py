"""The model of a Framework: pure, standard library only.

No module reads a clock, does I/O or logs. This file imports nothing, because the zipapp of the
agents contains only some of the modules. The modules by their purpose:

Spec and status, as types without JSON:

- ``types``: a Framework with its spec and its status; ``objectmeta``: its metadata.
- ``states``: the states of Frameworks and Tasks, and their transitions.
- ``completion``: completion codes, and the choice of the code for a failed Pod.
- ``endings``: sentences that describe an end.
- ``recovery``: fields of restarts in place; ``inplace``: the same as an annotation.
- ``leaving``: fields of Tasks that leave their nodes; ``avoiding``: of nodes that Tasks avoid.
- ``trainingstatus``: the training progress in the status.

JSON of a Framework:

- ``codec``: JSON to types and back.
- ``recoverycodec``, ``leavingcodec``, ``avoidingcodec``, ``trainingcodec``: parts of it.
- ``wire``: conversion by tables of fields, for the codecs.
- ``validation``: the faults of a decoded spec; ``fielderrors``: faults with the path of a field.
- ``crd``: the CustomResourceDefinition.
- ``gojson``: JSON with the bytes of Go.

Other objects of the cluster:

- ``pods``: views of Pods and attempt ConfigMaps; ``nodes``: views of nodes.
- ``podtemplates``: annotations and containers of a Pod template.
- ``templatefacts``: bounded facts of a large Pod template, for decisions.
- ``retryable_codes``: the annotation with retryable exit codes.
- ``gang_key``: whether a Pod template uses the gang key.

Messages between the controller and the agents:

- ``roster``: the members of a gang; ``rostervalues``: checks of its values.
- ``gangreadiness``: the missing Tasks before the first roster.
- ``epochreports``: failed processes and started epochs.
- ``trainingprogress``: the training progress in an annotation.
- ``scalerequest``: the work of a launcher for a scaler.
- ``packed``: bounds for untrusted JSON.

Names and text:

- ``constants``: names of fields, annotations, variables and files; limits.
- ``naming``: names of objects; ``images``: names of images.
- ``text``: escapes, cuts and hides untrusted text; ``durations``: ages for users.
- ``nesting``: bounds the depth of JSON.
"""
