"""Other job kinds as Frameworks: TfJob of mlkube.io, TrainingJob of et-operator. Pure.

Each kind has a compile step (its object -> a Framework and the objects beside it) and a status map
(the Framework -> the status of its object). The command line uses them, and the controller can. Not
here: requests, clocks and files.
"""
