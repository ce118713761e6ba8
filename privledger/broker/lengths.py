"""How long the answer to a confined learner's question will be, before anything is charged."""

from __future__ import annotations

from privledger.broker.channel import MIB
from privledger.errors import IsolationLimit
from privledger.facts.columns import TableFacts
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.questions.response_query import ResponseQuery

_AROUND, _OF_BLOCK = 4096, 128  # bytes of a reply, and of an array in it, beside the numbers


def refuse_long(question: object, facts: TableFacts, message_mb: int) -> None:
    """An answer that no message can carry is not worked out: cells of cells are soon more than the
    owner's memory, and would be noised one by one; a label for every row would be charged first.

    Args:
        question: built on this side. facts: public, of the guarded table.
        message_mb: what one message may have, in MiB.

    Raises:
        IsolationLimit: it has more than that, in base64.
    """
    numbers = _numbers(question, facts)
    blocks = len(question.blocks) if isinstance(question, Query) else 2
    if 32 * numbers / 3 + _AROUND + _OF_BLOCK * blocks > message_mb * MIB:
        raise IsolationLimit("message_mb", message_mb)


def _numbers(question: object, facts: TableFacts) -> int:
    """Of 8 bytes each, at most. 0 where it is not public: then `check` refuses the question."""
    if isinstance(question, Query):
        return question.cell_count * sum(block.width for block in question.blocks)
    if isinstance(question, Choice | LabelChoice):
        # A class for every leaf is counted one by one, although the answer is short.
        classes = 2 if question.labels is None else max(2, question.labels.count)
        return question.cell_count * classes
    if isinstance(question, LabelQuery):
        asked = question.rows
        if asked is None:
            return facts.n_rows or 0
        return len(range(*asked.indices(facts.n_rows or 0))) if isinstance(
            asked, slice) else len(asked)
    return (facts.n_rows or 0) if isinstance(question, ResponseQuery) else 0
