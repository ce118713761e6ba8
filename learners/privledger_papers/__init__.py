"""The five papers, cell by cell: what they print, what it costs, what a sound learner reaches.

A user of `privledger` and of `privledger_learners` like any other; `privledger reproduce` runs it.
"""
