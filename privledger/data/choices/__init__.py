"""Questions whose answer is a choice: which cut, which feature, which class."""


from privledger.data.choices.choice import Choice, LabelChoice, Picked
from privledger.data.choices.features import CustomScores, FeatureChoice, Votes
from privledger.data.choices.grown import GrownCells

__all__ = ["Choice", "CustomScores", "FeatureChoice", "GrownCells", "LabelChoice", "Picked",
           "Votes"]
