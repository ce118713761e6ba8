"""What `privledger` exports, for type checkers; `__init__.py` loads it on demand."""

from privledger.data import (
    Bins as Bins,
)
from privledger.data import (
    CategoryCells as CategoryCells,
)
from privledger.data import (
    Choice as Choice,
)
from privledger.data import (
    ClassIs as ClassIs,
)
from privledger.data import (
    Column as Column,
)
from privledger.data import (
    ColumnValue as ColumnValue,
)
from privledger.data import (
    CrossCells as CrossCells,
)
from privledger.data import (
    CustomScores as CustomScores,
)
from privledger.data import (
    CustomValue as CustomValue,
)
from privledger.data import (
    Dataset as Dataset,
)
from privledger.data import (
    FeatureChoice as FeatureChoice,
)
from privledger.data import (
    GrownCells as GrownCells,
)
from privledger.data import (
    IndexCells as IndexCells,
)
from privledger.data import (
    IntervalCells as IntervalCells,
)
from privledger.data import (
    LabelChoice as LabelChoice,
)
from privledger.data import (
    LabelledCells as LabelledCells,
)
from privledger.data import (
    LabelQuery as LabelQuery,
)
from privledger.data import (
    Ones as Ones,
)
from privledger.data import (
    Partition as Partition,
)
from privledger.data import (
    Picked as Picked,
)
from privledger.data import (
    Query as Query,
)
from privledger.data import (
    ResidualCells as ResidualCells,
)
from privledger.data import (
    Schema as Schema,
)
from privledger.data import (
    Score as Score,
)
from privledger.data import (
    TargetShares as TargetShares,
)
from privledger.data import (
    Test as Test,
)
from privledger.data import (
    TreeCells as TreeCells,
)
from privledger.data import (
    Votes as Votes,
)
from privledger.data import (
    encode_features as encode_features,
)
from privledger.data import (
    probabilities as probabilities,
)
from privledger.data import (
    read_table as read_table,
)
from privledger.errors import (
    BudgetExceeded as BudgetExceeded,
)
from privledger.errors import (
    DataDerived as DataDerived,
)
from privledger.errors import (
    DataError as DataError,
)
from privledger.errors import (
    InvalidCurve as InvalidCurve,
)
from privledger.errors import (
    InvalidMechanism as InvalidMechanism,
)
from privledger.errors import (
    InvalidPlan as InvalidPlan,
)
from privledger.errors import (
    InvalidValue as InvalidValue,
)
from privledger.errors import (
    IsolationError as IsolationError,
)
from privledger.errors import (
    IsolationLimit as IsolationLimit,
)
from privledger.errors import (
    IsolationUnavailable as IsolationUnavailable,
)
from privledger.errors import (
    LearnerError as LearnerError,
)
from privledger.errors import (
    LedgerBusy as LedgerBusy,
)
from privledger.errors import (
    LedgerCorrupt as LedgerCorrupt,
)
from privledger.errors import (
    LedgerError as LedgerError,
)
from privledger.errors import (
    LedgerMisplaced as LedgerMisplaced,
)
from privledger.errors import (
    LedgerMissing as LedgerMissing,
)
from privledger.errors import (
    LedgerTooNew as LedgerTooNew,
)
from privledger.errors import (
    ModelError as ModelError,
)
from privledger.errors import (
    NotGranted as NotGranted,
)
from privledger.errors import (
    NotSettled as NotSettled,
)
from privledger.errors import (
    PolicyViolation as PolicyViolation,
)
from privledger.errors import (
    PrivledgerError as PrivledgerError,
)
from privledger.errors import (
    RelationMismatch as RelationMismatch,
)
from privledger.errors import (
    SchemaError as SchemaError,
)
from privledger.errors import (
    ScopeBusy as ScopeBusy,
)
from privledger.errors import (
    UnsupportedNode as UnsupportedNode,
)
from privledger.findings import (
    Finding as Finding,
)
from privledger.graph import (
    AsReplaceOne as AsReplaceOne,
)
from privledger.graph import (
    Explanation as Explanation,
)
from privledger.graph import (
    FixedSizeSample as FixedSizeSample,
)
from privledger.graph import (
    Group as Group,
)
from privledger.graph import (
    IndividualFilter as IndividualFilter,
)
from privledger.graph import (
    LabelOnly as LabelOnly,
)
from privledger.graph import (
    Node as Node,
)
from privledger.graph import (
    OneOf as OneOf,
)
from privledger.graph import (
    Parallel as Parallel,
)
from privledger.graph import (
    PoissonSample as PoissonSample,
)
from privledger.graph import (
    PostProcess as PostProcess,
)
from privledger.graph import (
    Public as Public,
)
from privledger.graph import (
    Repeat as Repeat,
)
from privledger.graph import (
    Sequential as Sequential,
)
from privledger.graph import (
    Tuning as Tuning,
)
from privledger.graph import (
    calibrate as calibrate,
)
from privledger.graph import (
    certify as certify,
)
from privledger.graph import (
    delta as delta,
)
from privledger.graph import (
    epsilon as epsilon,
)
from privledger.graph import (
    explain as explain,
)
from privledger.graph import (
    from_dp_event as from_dp_event,
)
from privledger.graph import (
    from_json as from_json,
)
from privledger.graph import (
    graphml as graphml,
)
from privledger.graph import (
    label as label,
)
from privledger.graph import (
    rdp as rdp,
)
from privledger.graph import (
    rdp_per_record as rdp_per_record,
)
from privledger.graph import (
    to_dp_event as to_dp_event,
)
from privledger.graph import (
    to_json as to_json,
)
from privledger.graph import (
    view as view,
)
from privledger.guard import (
    Ledger as Ledger,
)
from privledger.guard import (
    LedgerHandle as LedgerHandle,
)
from privledger.guard import (
    RecordSpend as RecordSpend,
)
from privledger.guard import (
    Scope as Scope,
)
from privledger.guard import (
    Session as Session,
)
from privledger.ledger import (
    Budget as Budget,
)
from privledger.ledger import (
    Cap as Cap,
)
from privledger.ledger import (
    Policy as Policy,
)
from privledger.ledger import (
    Receipt as Receipt,
)
from privledger.mechanisms import (
    Asserted as Asserted,
)
from privledger.mechanisms import (
    AssertedZCDP as AssertedZCDP,
)
from privledger.mechanisms import (
    DiscreteGaussian as DiscreteGaussian,
)
from privledger.mechanisms import (
    DiscreteLaplace as DiscreteLaplace,
)
from privledger.mechanisms import (
    Exponential as Exponential,
)
from privledger.mechanisms import (
    Gaussian as Gaussian,
)
from privledger.mechanisms import (
    Laplace as Laplace,
)
from privledger.mechanisms import (
    PermuteAndFlip as PermuteAndFlip,
)
from privledger.mechanisms import (
    RandomizedResponse as RandomizedResponse,
)
from privledger.mechanisms import (
    ReportNoisyMax as ReportNoisyMax,
)
from privledger.mechanisms import (
    SparseVector as SparseVector,
)
from privledger.mechanisms import (
    TopK as TopK,
)
from privledger.models import (
    load_model as load_model,
)
from privledger.models import (
    save_model as save_model,
)
from privledger.plugins import (
    ClaimStep as ClaimStep,
)
from privledger.plugins import (
    Learner as Learner,
)
from privledger.plugins import (
    LearnerInfo as LearnerInfo,
)
from privledger.plugins import (
    learner_names as learner_names,
)
from privledger.plugins import (
    load_learner as load_learner,
)

__version__: str
__all__: list[str]
