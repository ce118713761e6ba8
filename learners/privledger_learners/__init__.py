"""Learners that use privledger's public API only, exactly as a stranger's plugin would."""

from privledger_learners.joint_tree import JointTreeClassifier, JointTreeRegressor
from privledger_learners.label_private import LabelPrivateClassifier
from privledger_learners.partitioning import PrivateEnsembleClassifier
from privledger_learners.sgbdt import SGBDTClassifier, SGBDTRegressor

__all__ = ["JointTreeClassifier", "JointTreeRegressor", "LabelPrivateClassifier",
           "PrivateEnsembleClassifier", "SGBDTClassifier", "SGBDTRegressor"]
