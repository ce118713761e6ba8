"""An entry of the registry of deployments, held against a copy of the registry's own rules."""

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.reports.formats import HUMAN, REQUIRED
from tests.worlds import schema_of

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

SCHEMA = schema_of("t", {"x": (0, 1)})
S, N, L = str, (int, float), list
# Transcribed from opendp/deployments-registry-data, schemas/deployments-schema.yaml, 3e9c812:
# every object is closed; a trailing * is required; a tuple of texts is an enumeration.
RULES = {
    "url_slug*": S, "tier*": (1, 2, 3),
    "status*": ("Converted", "Draft", "Pending", "Changes Required", "Approved",
                "Approved (Update Requested)", "Approved (Pending)"),
    "deployment*": {
        "basic*": {
            "name*": S, "data_curators*": L, "intended_use*": S, "data_product_region*": S,
            "description*": S, "publication_date*": S,
            "data_product_type*": ("Summary statistics", "Machine learning model", "Dataset",
                                   "Synthetic data", "Interactive API", "SQL queries"),
            "data_product_sector": ("Technology", "Healthcare", "Education", "Government",
                                    "Energy", "Finance")},
        "dp_variant": {
            "variant_name": ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP",
                             "Custom"), "data_domain": S, "unprotected_quantities": S},
        "privacy_loss": {"privacy_unit": S, "privacy_unit_details": S,
                         "privacy_parameters": {"epsilon": N, "delta": (int, float, str),
                                                "rho": N},
                         "privacy_parameters_details": S},
        "deployment_model": {
            "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
            "model_name_details": S, "actors": S, "release_type": ("One release", "Many releases"),
            "release_type_details": S, "data_source_type": ("Static", "Dynamic"),
            "data_source_type_details": S, "access_type": ("Interactive", "Non-interactive"),
            "access_type_details": S},
        "accounting": {"post_processing": S, "composition": S},
        "implementation": {"preprocessing_and_hyperparameter_tuning": S, "mechanisms": S,
                           "justification": S},
        "administrative": {"sources": S, "notes": S, "registry_authors*": L}}}
PERSON = '''[basic]
name = "Ages: \\"2026\\""
data_curators = ["An office"]
intended_use = "planning"
data_product_type = "Summary statistics"
data_product_region = "Nowhere"
description = "counts # of\\nages"
publication_date = "2026-11-23"
[administrative]
registry_authors = ["A. Nobody"]
'''
WHOLE = PERSON + """[dp_variant]
data_domain = "tables"
[deployment_model]
actors = "one"
access_type = "Non-interactive"
[accounting]
post_processing = "none"
[implementation]
preprocessing_and_hyperparameter_tuning = "none"
justification = "asked"
"""


def faults(value, rule, path=""):
    if isinstance(rule, dict):
        if not isinstance(value, dict):
            return [f"{path} is no object"]
        known = {key.rstrip("*"): key for key in rule}
        found = [f"{path}.{key} is unknown" for key in value if key not in known]
        found += [f"{path}.{key[:-1]} is missing" for key in rule
                  if key.endswith("*") and key[:-1] not in value]
        return found + [fault for key, one in value.items() if key in known
                        for fault in faults(one, rule[known[key]], f"{path}.{key}")]
    if isinstance(rule, tuple) and not isinstance(rule[0], type):
        return [] if value in rule else [f"{path} is {value!r}"]
    if rule is L:
        return [] if isinstance(value, list) and value and all(
            isinstance(one, str) for one in value) else [f"{path} is no list of texts"]
    return [] if isinstance(value, rule) and not isinstance(value, bool) else [f"{path}: {value!r}"]


def exported(tmp_path, human=PERSON, kind="gdp", budget=None, **options):
    path, out = tmp_path / "l.ledger", tmp_path / "d.yaml"
    ledger = pl.Ledger.create(path, budget=budget or pl.Budget(2.0, 1e-6), filter=kind, **options)
    data = ledger.protect({"x": np.arange(50) / 50}, SCHEMA, name="t")
    for _ in range(2):
        node = pl.Laplace(9.0) if kind == "basic" else pl.Gaussian(20.0)
        ledger.request(node, data, learner="a").close()
    (tmp_path / "h.toml").write_text(human)
    done = CliRunner().invoke(main, ["export", str(path), "-o", str(out), "--as", "deployment",
                                     "--human", str(tmp_path / "h.toml")])
    return done, yaml.safe_load(out.read_text()) if out.exists() else None


@pytest.mark.parametrize(("kind", "budget", "variant"), [
    ("gdp", pl.Budget(2.0, 1e-6), "Approximate DP"), ("basic", pl.Budget(2.0), "Pure DP"),
    ("zcdp", pl.Budget(2.0, 1e-6), "Zero-concentrated DP"),
    ("rdp", pl.Budget(2.0, 1e-6), "Approximate DP")])
@pytest.mark.parametrize("human", [PERSON, WHOLE])
def test_the_registry_takes_it(tmp_path, human, kind, budget, variant):
    done, found = exported(tmp_path, human, kind, budget)
    assert done.exit_code == 0, done.output
    assert faults(found, RULES) == []
    body = found["deployment"]
    assert found["tier"] == (3 if human is WHOLE else 2) and found["url_slug"] == "ages_2026"
    assert body["basic"]["name"] == 'Ages: "2026"'
    assert body["basic"]["description"] == "counts # of\nages"
    assert body["basic"]["publication_date"] == "2026-11-23"  # a text, as the registry has it
    assert body["dp_variant"]["variant_name"] == variant
    loss = body["privacy_loss"]["privacy_parameters"]
    assert (loss["epsilon"], loss["delta"]) == (budget.epsilon, budget.delta)
    assert ("rho" in loss) == (kind == "zcdp")
    assert "in at most" in body["privacy_loss"]["privacy_parameters_details"]
    assert body["deployment_model"]["release_type"] == "Many releases"


@pytest.mark.parametrize(("table", "key"), [
    (table, key) for table, keys in REQUIRED.items() for key in keys])
def test_a_required_field_that_is_missing_is_named(tmp_path, table, key):
    lines = [line for line in PERSON.splitlines() if not line.startswith(f"{key} =")]
    done, found = exported(tmp_path, "\n".join(lines))
    assert done.exit_code == 2 and f"{table}.{key} is missing" in " ".join(done.output.split())
    assert found is None


@pytest.mark.parametrize("more", [
    "[privacy_loss]\nprivacy_unit = 'x'\n", "[implementation]\nmechanisms = 'x'\n",
    "[dp_variant]\nvariant_name = 'Pure DP'\n", "[deployment_model]\naccess_type = 'maybe'\n",
    "[accounting]\npost_processing = 3\n", "[accounting]\npost_processing = ' '\n"])
def test_what_is_the_ledgers_to_say_and_what_is_no_value_are_refused(tmp_path, more):
    done, found = exported(tmp_path, PERSON + more)
    assert done.exit_code == 2 and found is None


@pytest.mark.parametrize("day", ["2026-13-01", "26-01-01", "yesterday"])
def test_a_day_is_a_day(tmp_path, day):
    assert exported(tmp_path, PERSON.replace("2026-11-23", day))[0].exit_code == 2


def test_simulated_noise_is_no_deployment(tmp_path):
    done, found = exported(tmp_path, mode="simulation", seed=1)
    assert done.exit_code == 1 and found is None


def test_the_two_options_go_together(tmp_path):
    exported(tmp_path)
    path = str(tmp_path / "l.ledger")
    for args in (["--as", "deployment"], ["--human", str(tmp_path / "h.toml")]):
        assert CliRunner().invoke(main, ["export", path, "-o", str(tmp_path / "z"),
                                         *args]).exit_code == 2


def test_every_field_of_a_person_is_one_of_the_registrys():
    tables = {key.rstrip("*"): {name.rstrip("*") for name in rule}
              for key, rule in RULES["deployment*"].items()}
    for table, fields in HUMAN.items():
        assert set(fields) <= tables[table]
