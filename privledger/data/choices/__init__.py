"""Questions whose answer is a choice: which cut, which feature."""

from privledger.data.choices.choice import Choice, Picked
from privledger.data.choices.features import CustomScores, FeatureChoice, Votes
from privledger.data.choices.grown import GrownCells

__all__ = ["Choice", "CustomScores", "FeatureChoice", "GrownCells", "Picked", "Votes"]
