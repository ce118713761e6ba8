"""Who is who: ids in one spelling, and what stands for them once a key has been over them.

An id never goes further than the function that reads it. What a ledger keeps of a person is a
keyed digest (`digests`), made with a key that no ledger keeps (`keys`).
"""
