"""Learners that use privledger's public API only, exactly as a stranger's plugin would."""

from privledger_learners.auto import AutoClassifier, AutoRegressor
from privledger_learners.baselines.dp_df import DPDFClassifier
from privledger_learners.baselines.dp_ert import DPERTClassifier, DPERTRegressor
from privledger_learners.baselines.dp_rf import DPRFClassifier, DPRFRegressor
from privledger_learners.baselines.max_tree import MaxTreeClassifier
from privledger_learners.baselines.neighbour_line import TOPClassifier
from privledger_learners.baselines.rdt import RDTClassifier
from privledger_learners.baselines.srt import SRTClassifier
from privledger_learners.baselines.ssrdt import SSRDTClassifier
from privledger_learners.diprime import DiPriMeForestClassifier, DiPriMeForestRegressor
from privledger_learners.dpboost import DPBoostClassifier, DPBoostRegressor
from privledger_learners.dpsis import DPSIS, DPSISTwoStage
from privledger_learners.estimator import NoiseFloorWarning
from privledger_learners.joint_tree import JointTreeClassifier, JointTreeRegressor
from privledger_learners.label_private import LabelPrivateClassifier
from privledger_learners.mrf import MultinomialForestClassifier
from privledger_learners.partitioning import PrivateEnsembleClassifier
from privledger_learners.search import PrivateSearchCV
from privledger_learners.sgbdt import SGBDTClassifier, SGBDTRegressor

__all__ = [
    "DPSIS",
    "AutoClassifier",
    "AutoRegressor",
    "DPBoostClassifier",
    "DPBoostRegressor",
    "DPDFClassifier",
    "DPERTClassifier",
    "DPERTRegressor",
    "DPRFClassifier",
    "DPRFRegressor",
    "DPSISTwoStage",
    "DiPriMeForestClassifier",
    "DiPriMeForestRegressor",
    "JointTreeClassifier",
    "JointTreeRegressor",
    "LabelPrivateClassifier",
    "MaxTreeClassifier",
    "MultinomialForestClassifier",
    "NoiseFloorWarning",
    "PrivateEnsembleClassifier",
    "PrivateSearchCV",
    "RDTClassifier",
    "SGBDTClassifier",
    "SGBDTRegressor",
    "SRTClassifier",
    "SSRDTClassifier",
    "TOPClassifier",
]
