"""Learners that use privledger's public API only, exactly as a stranger's plugin would."""

from privledger_learners.dpboost import DPBoostClassifier, DPBoostRegressor
from privledger_learners.sgbdt import SGBDTClassifier, SGBDTRegressor

__all__ = ["DPBoostClassifier", "DPBoostRegressor", "SGBDTClassifier", "SGBDTRegressor"]
