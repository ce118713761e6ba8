"""Other libraries, paid for from a ledger: diffprivlib, OpenDP, Opacus and jax-privacy.

Each module needs its library when it is used, and none of the others. docs/others.md says what is
enforced here and what stays on a library's word.
"""
