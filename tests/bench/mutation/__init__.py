"""Mutants of sampled places in the package, run against the tests nearest to them.

`python -m tests.bench.mutation --sample 200 --seed 1` or `--changed main`. A mutant that every
near test passes is a survivor: a line that no test states a law for. The working tree is never
changed; each mutant lives in a copy of it.
"""
