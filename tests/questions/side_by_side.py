"""Every kind of question x mechanism x derivation x world: answers or refusals, one line each, of the package on the path.

`git archive OLD | tar x -C /tmp/old`, then in each tree `PYTHONPATH=. python side_by_side.py TREE [WORLD...] > FILE`, and diff.
"""
import hashlib, json, random, re, secrets, sys
import numpy as np

rng_ = random.Random(7)
secrets.token_bytes = lambda n=32: b"0" * 16 if n == 16 else rng_.randbytes(n or 32)
secrets.token_hex = lambda n=32: rng_.randbytes(n or 32).hex()
import privledger as pl
from privledger.questions.cells import CoinCells
sys.path.append(sys.argv[1])          # the tests of that tree, for the engine
from tests.engines.mischief import Mischief
from tests.standalone.histories import lines_of

q = pl.questions
N = 160
COLUMNS = (pl.Column("x", "numeric", "feature", -1.0, 2.0, missing=True), pl.Column("z", "numeric", "feature", 0.0, 100.0, integer=True),
           pl.Column("c", "categorical", "feature", categories=("a", "b", "d"), missing=True))
TEXT = pl.Column("g", "text", "key")
CLASSES = pl.Schema("k", (*COLUMNS, pl.Column("y", "categorical", "target", categories=("n", "p", "r"))))
NUMBERS = pl.Schema("n", (*COLUMNS, pl.Column("y", "numeric", "target", 0.0, 10.0)))
GROUPS = pl.Schema("g", (*COLUMNS, TEXT, pl.Column("y", "categorical", "target", categories=("n", "p", "r"))))

def table(schema, seed):
    rng = np.random.default_rng(seed)
    X = {"x": np.where(rng.random(N) < .1, np.nan, rng.uniform(-1, 2, N)), "z": rng.integers(0, 101, N),
         "c": rng.choice(np.array(["a", "b", "d", None], dtype=object), N)}
    if schema is GROUPS:
        X["g"] = rng.choice(["many", "few", "more"], N, p=[.6, .1, .3])
    y = rng.uniform(0, 10, N) if schema is NUMBERS else rng.choice(["n", "p", "r"], N)
    return X, y

def moved(data, loss, width):
    score = data.score(loss, np.linspace(.1, .3, width))
    score.add(q.CategoryCells("c", 4), np.sin(np.arange(4.0 * width)).reshape((4, width) if width > 1 else (4,)))
    return score

def questions(data, schema, run):
    yield "count", lambda: data.count()
    yield "people", lambda: data.people()
    yield "rows per person", lambda: data.rows_per_person([2.0])
    yield "sum", lambda: data.sum("x")
    yield "histogram", lambda: data.histogram("c")
    yield "hist2", lambda: data.histogram("z", [20., 50.])
    yield "moments", lambda: data.query((q.ColumnMoments("x", -1.0, 1.0, 2, True),))
    yield "rowsum", lambda: data.row_sum(None, "products")
    yield "two", lambda: data.query((q.Ones(), q.ColumnValue("x", .5, 1.5)), data.cells("c"))
    yield "mapped", lambda: data.query((q.Ones(),), q.MappedCells([q.CategoryCells("c", 4)], [0, 2, 1, 2], 3, True))
    yield "nearest", lambda: data.query((q.Ones(),), q.NearestCells(("x", "z"), [[0., -.9], [.1, .2]]))
    yield "coins", lambda: data.query((q.ColumnValue("z", 50., 50.),), CoinCells(3, (1, 2, 3)))
    yield "places", lambda: data.query((q.Ones(),), q.IndexCells(np.arange(N) % 3, 3))
    yield "custom", lambda: data.custom(lambda t: t["z"] / 100, 1.0, "said so")
    yield "labels", lambda: data.labels()
    yield "labels2", lambda: data.labels(slice(3, 9), np.tile([0, 2], (6, 1)))
    yield "labels3", lambda: data.labels([7, 3, 5])
    yield "response", lambda: data.responses("c")
    yield "response y", lambda: data.responses("y")
    yield "quantile", lambda: data.quantile("x", .3, bins=64)
    yield "quantile1", lambda: data.quantile("z", .8, bins=1)
    yield "groups", lambda: data.groups("g")
    yield "above", lambda: run.above(data.sum("x"), 3.0)
    yield "above2", lambda: run.above(data.count(), 100.0)
    yield "table", lambda: q.TableChoice(data, (data.cells("c"), data.cells("z", [50.])), [20.] * 7, [0., 5.])
    yield "rank", lambda: data.features_by("rank")
    yield "corr", lambda: data.features_by("correlation", [1])
    yield "votes", lambda: data.features_by(q.Votes(3, 2, .05))
    yield "customf", lambda: data.features_by(q.CustomScores(lambda X, y: np.nansum(X > 1, axis=0), 1.0, "a count"))
    tree = data.root(data.bins(8)).grow([0], [3])
    yield "cut rank", lambda: data.choose(tree, "rank", features=[1, 0])
    yield "cut rank2", lambda: data.choose(tree, "rank", features=[-1, 2])
    yield "cut fine", lambda: data.choose(data.root(data.bins(1000)), "rank", features=[1])
    if schema is NUMBERS:
        score = moved(data, "squared", 1)
        yield "sumy", lambda: data.sum("y")
        yield "shares", lambda: data.query((q.TargetShares(),), data.cells("c"))
        yield "grad", lambda: data.query((score.gradient(.7), score.hessian(.5)), tree)
        yield "residual", lambda: data.query((q.Ones(),), q.ResidualCells(score, (.1, .5)))
        yield "quantile y", lambda: data.quantile("y", .5, bins=16)
        yield "fit", lambda: data.choose(tree, "squared_error", among="both")
        yield "fitf", lambda: data.choose(tree, "squared_error", among="features", allowed=np.array([[True, False, True], [True, True, False]]))
        yield "gain", lambda: data.choose(tree, "gain", among="both", gradient=score.gradient(.3, filtered=True), penalty=1.0)
        return
    labels, score = q.CategoryCells("", 3), moved(data, "softmax", 3)
    yield "classis", lambda: data.query((q.ClassIs(1), q.Ones()), data.cells("y"))
    yield "grad", lambda: data.query((score.gradient(.7), score.hessian()), tree)
    yield "agreement", lambda: data.features_by("agreement", (), (1000, 3, 500))
    yield "label", lambda: data.choose_label(tree, labels)
    yield "label coins", lambda: data.choose_label(tree, CoinCells(3))
    yield "tablel", lambda: q.TableChoice(data, (labels, q.CrossCells(tree, labels)), np.ones(9), [.5, 0.])
    for s in ("squared_error", "gini", "entropy"):
        yield f"{s} f", lambda s=s: data.choose(tree, s, among="features", labels=labels)
        yield f"{s} b", lambda s=s: data.choose(tree, s, among="both", labels=labels)

MECHANISMS = {
    "G": pl.Gaussian(5.0), "G2": pl.Gaussian(5.0, shares=(.3, .7)), "L": pl.Laplace(8.0), "L2": pl.Laplace(8.0, 4.0), "DL": pl.DiscreteLaplace(.2, 64),
    "DG": pl.DiscreteGaussian(5.0, 64), "E": pl.Exponential(1.0), "E1": pl.Exponential(1.0, (0, 1)), "F": pl.PermuteAndFlip(1.0),
    "N": pl.ReportNoisyMax(1.0), "Ng": pl.ReportNoisyMax(1.0, "gumbel"), "Nl": pl.ReportNoisyMax(1.0, "laplace") , "T": pl.TopK(2, 1.0), "Tg": pl.TopK(2, 1.0, "gumbel"), "R3": pl.RandomizedResponse(.5, 3),
    "R4": pl.RandomizedResponse(.5, 4), "R2": pl.RandomizedResponse(.5, 2), "V": pl.SparseVector(4.0, 8.0, 2, 2.0), "P": pl.nodes.PartitionSelection(45.0, 2.0), "Pg": pl.nodes.PartitionSelection(45.0, 4.0, 2, "gaussian")}
FEW = ("G", "G2", "L2", "DL", "E", "F", "Tg", "R3", "R2", "V", "P")

def handles(data, relation):
    yield "all", lambda n: n, lambda s: data
    if relation == "replace_label":
        yield "lab", lambda n: pl.nodes.LabelOnly(n), lambda s: data
        yield "labidx", lambda n: pl.nodes.LabelOnly(pl.Parallel([n, n, n], "index")), lambda s: data.partition(q.IndexCells(np.arange(N) % 3, 3))[1]
    yield "poisson", lambda n: pl.PoissonSample(.5, n), lambda s: data.poisson(.5)
    yield "part c", lambda n: pl.Parallel([n] * 4), lambda s: data.partition(q.CategoryCells("c", 4))[1]
    yield "part coin", lambda n: pl.Parallel([n] * 2, "iid_per_record"), lambda s: data.partition(2)[1]
    yield "part idx", lambda n: pl.Parallel([n] * 3, "index"), lambda s: data.partition(q.IndexCells(np.arange(N) % 3, 3))[1]
    yield "part y", lambda n: pl.Parallel([n] * 3), lambda s: data.partition(q.CategoryCells("", 3))[1]
    yield "fixed", lambda n: pl.nodes.FixedSizeSample(50, N, n), lambda s: data.fixed_size(50, N)
    yield "cut", lambda n: pl.nodes.TruncatedPoissonSample(.5, 30, 10**15, n), lambda s: data.truncated_poisson(.5, 30, 10**15)
    yield "alloc", lambda n: pl.nodes.RandomAllocation(3, n), lambda s: data.random_allocation(3)[1]
    yield "filter", lambda n: pl.IndividualFilter("renyi", .5, 64.0, node=n), lambda s: s.filtered()
    yield "filter+", lambda n: pl.IndividualFilter("renyi", .5, 64.0), lambda s: s.filtered()
    yield "filter p", lambda n: pl.IndividualFilter("renyi", 5.0, 64.0), lambda s: s.filtered().poisson(.5)

def plain(a):
    if hasattr(a, "feature"): return [np.asarray(a.feature).tolist(), np.asarray(a.cut).tolist()]
    if hasattr(a, "names"): return [list(a.names), a.counts.tolist()]
    if isinstance(a, list | tuple): return [plain(one) for one in a]
    return [str(np.asarray(a).dtype), np.asarray(a).tolist()]

def main():
    only = sys.argv[2:] 
    out = []
    for relation in ("add_remove", "replace_one", "replace_label"):
        for unit in ("row", "person"):
            for storage in ("memory", "chunks"):
                for schema in (CLASSES, NUMBERS, GROUPS):
                    world = f"{relation}/{unit}/{storage}/{schema.name}"
                    if only and not any(o in world for o in only): continue
                    more = {"unit": "person", "people_key": b"0" * 32} if unit == "person" else {}
                    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6, 5e-7), mode="simulation", seed=5, relation=relation, filter="rdp", **more)
                    X, y = table(schema, 3)
                    extra = {"people": np.arange(N) // 2 if relation != "replace_label" else np.arange(N)} if unit == "person" else {}
                    try:
                        data = ledger.protect(X, y, schema, name="p", public_features=relation == "replace_label",
                                              engine=Mischief(3, chunk_rows=64) if storage == "chunks" else None, **extra)
                    except Exception as e:
                        out.append(f"{world} | {type(e).__name__}: {e}"); continue
                    for hname, wrap, handle in handles(data, relation):
                        for mname, mech in MECHANISMS.items():
                            if hname not in ("all", "lab") and mname not in FEW: continue
                            try:
                                plan = wrap(pl.Repeat(mech, 200))
                            except Exception as e:
                                continue
                            try:
                                with ledger.request(plan, data) as s:
                                    h = handle(s)
                                    try: run = h.sparse_vector()
                                    except Exception: run = None
                                    for qname, make in questions(h, schema, run):
                                        try:
                                            text = json.dumps(plain(s.release(mech, make(), **({"rollover": 3} if hname == "filter+" else {}))))
                                            if len(text) > 200: text = hashlib.sha256(text.encode()).hexdigest()
                                        except Exception as e:
                                            text = f"{type(e).__name__}: {e}"
                                        out.append(re.sub(r"(sample|parts|allocation|filter)-\w+", r"\1", f"{world} | {hname} | {mname} | {qname} | {text}"))
                            except Exception as e:
                                out.append(re.sub(r"(sample|parts|allocation|filter)-\w+", r"\1", f"{world} | {hname} | {mname} | {type(e).__name__}: {e}"))
                    labels = [[line["body"][k] for k in ("nodes", "questions", "items")] for line in lines_of(ledger) if line["kind"] == "released"]
                    body = re.sub('"token": "[^"]*"', "", json.dumps(labels))
                    out.append(f"{world} | released | {len(labels)} {hashlib.sha256(body.encode()).hexdigest()}")
                    found = ledger.verify()
                    out.append(f"{world} | verify | {found}")
                    ledger.close()
    print("\n".join(out))
main()
