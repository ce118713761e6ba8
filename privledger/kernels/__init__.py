"""What is done with rows for one question: the same code on a whole table and on one chunk of it.

Nothing here knows a ledger, a session or an engine. Who may be asked was decided before, and noise
is added afterwards: what comes out are whole numbers that add up over chunks in any order.
"""
