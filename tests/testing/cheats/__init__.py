"""Learners that each break one rule, and the honest one that they are made from."""
