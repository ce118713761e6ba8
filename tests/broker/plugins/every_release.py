"""Every mechanism that is released, asked in one way from any process: one plan, some answers."""

import json

import numpy as np

import privledger as pl

N = 200
SCHEMA = pl.Schema("all", (
    pl.Column("x", "numeric", "feature", 0.0, 1.0),
    pl.Column("z", "numeric", "feature", -1.0, 1.0),
    pl.Column("c", "categorical", "feature", categories=("u", "v", "w")),
    pl.Column("g", "text", "key"),
    pl.Column("label", "categorical", "target", categories=("no", "yes"))))


def _one(node, ask):
    """A plan of one node, which stands where it is asked."""
    return node, lambda session, data: [session.release(node, ask(data))]


def _sampled(wrap, handle, node):
    return wrap(node), lambda session, data: [session.release(node, handle(data).count())]


def _above(node):
    def ask(session, data):
        run = data.sparse_vector()
        return [session.release(node, run.above(data.count(), limit)) for limit in (150.0, 180.0)]
    return node, ask


def _stream(node, groups):
    def ask(session, data):
        stream = data.correlated(groups)
        return [session.release(node, stream.step(data.histogram("c"))) for _ in range(node.steps)]
    return node, ask


def _root(data):
    return data.root(data.bins(8))


def _labels(data):
    return data.choose_label(_root(data), pl.questions.CategoryCells("", 2))


L, G, EM = pl.Laplace(8.0), pl.Gaussian(8.0), pl.Exponential(0.5)
ONCE, RR = pl.Exponential(0.5, (0, 1)), pl.RandomizedResponse(0.5, 4)
PAIR = pl.Gaussian(8.0, (0.5, 0.5))
ADD_REMOVE = {
    "laplace": _one(L, lambda data: data.count()),
    "gaussian": _one(G, lambda data: data.histogram("c")),
    "gaussian pair": _one(PAIR, lambda data: data.query(
        (pl.questions.Ones(), pl.questions.ColumnValue("x", 0.5, 0.5)), data.cells("c"))),
    "discrete laplace": _one(pl.DiscreteLaplace(0.2), lambda data: data.count()),
    "discrete laplace sum": _one(pl.DiscreteLaplace(0.2, 64), lambda data: data.sum("x")),
    "discrete gaussian": _one(pl.DiscreteGaussian(5.0), lambda data: data.histogram("c")),
    "row sum": _one(G, lambda data: data.row_sum()),
    "products": _one(G, lambda data: data.row_sum(["x", "z"], "products")),
    "quantile": _one(EM, lambda data: data.quantile("x", 0.25)),
    "cut": _one(EM, lambda data: data.choose(_root(data), "rank", features=[0])),
    "class": _one(ONCE, _labels),
    "class, permute and flip": _one(pl.PermuteAndFlip(0.5), _labels),
    "feature": _one(ONCE, lambda data: data.features_by("agreement")),
    "feature, noisy max": _one(pl.ReportNoisyMax(0.5, "gumbel"), lambda data: data.features_by(
        "rank")),
    "features, top k": _one(pl.TopK(2, 0.5, "gumbel"), lambda data: data.features_by("rank")),
    "table": _one(EM, lambda data: pl.questions.TableChoice(
        data, (data.cells("c"), data.cells("x", [0.5])), [20.0] * 7, [0.0, 5.0])),
    "groups": _one(pl.nodes.PartitionSelection(45.0, 2.0), lambda data: data.groups("g")),
    "groups, geometric": _one(pl.nodes.PartitionSelection(35.0, 2.0, 1, "geometric"),
                              lambda data: data.groups("g")),
    "sparse vector": _above(pl.SparseVector(4.0, 8.0, 2)),
    "correlated": _stream(pl.nodes.Correlated(G, (1.0, 0.5), 3, 1, 3), None),
    "correlated, sampled groups": _stream(pl.nodes.Correlated(
        pl.PoissonSample(0.5, G), (1.0, 0.5), 3, 2, 2), 2),
    "poisson": _sampled(lambda node: pl.PoissonSample(0.5, node), lambda data: data.poisson(0.5),
                        G),
    "cut off": _sampled(lambda node: pl.nodes.TruncatedPoissonSample(0.5, 50, 10**15, node),
                        lambda data: data.truncated_poisson(0.5, 50, 10**15), G),
    "allocation": (pl.nodes.RandomAllocation(3, G), lambda session, data: [
        session.release(G, handle.count()) for rounds in [data.random_allocation(3)]
        for handle in (rounds[2], rounds[0])]),
    "parts by coins": (pl.Parallel([G, L], "iid_per_record"), lambda session, data: [
        session.release(node, part.count()) for node, part in zip(
            (G, L), (lambda parts: (parts[0], parts[1]))(data.partition(2)), strict=True)])}
REPLACE_ONE = {
    "response": _one(RR, lambda data: data.responses("c")),
    "fixed size": _sampled(lambda node: pl.nodes.FixedSizeSample(50, N, node),
                           lambda data: data.fixed_size(50, N), L),
    "laplace, replaced": _one(pl.Laplace(8.0, 2.0), lambda data: data.sum("x")),
    "quantile, replaced": _one(EM, lambda data: data.quantile("x", 0.5))}
REPLACE_LABEL = {
    "labels": (pl.nodes.LabelOnly(pl.RandomizedResponse(0.5, 2)), lambda session, data: [
        session.release(pl.RandomizedResponse(0.5, 2), data.labels(slice(0, 20)))])}
RELEASES = {"add_remove": ADD_REMOVE, "replace_one": REPLACE_ONE, "replace_label": REPLACE_LABEL}


def plain(answer):
    """An answer as plain values."""
    if hasattr(answer, "feature"):
        return [np.asarray(answer.feature).tolist(), np.asarray(answer.cut).tolist()]
    if hasattr(answer, "names"):
        return [list(answer.names), answer.counts.tolist()]
    if isinstance(answer, list | tuple):
        return [plain(one) for one in answer]
    return np.asarray(answer).tolist()


class Everything:
    """Releases everything of its relation, each under a grant of its own."""

    info = pl.LearnerInfo("everything", "asks", "", tuple(RELEASES), ("classification",))

    def __init__(self, epsilon=1.0, delta=1e-6, schema=None, relation="add_remove"):
        self.epsilon, self.delta, self.schema, self.relation = epsilon, delta, schema, relation
        self.found = {}

    def plan(self, schema):
        return pl.Sequential([node for node, _ in RELEASES[self.relation].values()])

    def claimed(self, schema):
        return ()

    def fit(self, data):
        for name, (plan, ask) in RELEASES[self.relation].items():
            with data.ledger.request(plan, data, learner=name) as session:
                self.found[name] = [plain(one) for one in ask(session, data)]
        return self

    def predict(self, X):
        return [json.dumps(self.found)] * len(X["x"])
