"""The command line: ``framework``, also installed as ``kubectl-framework``."""
