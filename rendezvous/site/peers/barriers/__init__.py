"""Barriers: each process connects to the hub at rank 0, which releases them together.

``client`` runs in every process and starts ``hub`` at rank 0. Both speak ``protocol``; ``limits``
bounds the connections of the hub, and ``connecting`` opens and keeps them.
"""
