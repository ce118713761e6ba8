"""Gradient boosting on releases: what to ask, and what to make of the noisy answers."""
