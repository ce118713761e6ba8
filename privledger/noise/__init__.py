"""Exact noise: rounded Gaussian and Laplace draws over operating-system entropy.

Nothing is imported here, so that a command that draws no noise does not pay for SciPy.
"""
