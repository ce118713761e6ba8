"""One-line faults that break privacy, and what finds each of them: `python -m tests.bench.zoo`."""
