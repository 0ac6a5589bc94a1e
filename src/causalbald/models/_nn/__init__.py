"""Layers, encoders, objectives and training of the deep models. All members of a model are trained at once.

Tensors have a leading axis for M members: features are (M, n, F), weights (M, inputs, outputs). Members never mix, and
each member draws from its own random stream: a member's result does not depend on the other members.
"""
