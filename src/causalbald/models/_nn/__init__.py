"""Layers, encoders and training of the deep models. All members of a model are trained at once.

Tensors have a leading axis for M members: features are (M, n, F), weights (M, inputs, outputs). Members never
mix, and each draws from a random stream of its own, so one member alone gives what it gives among others.
"""
