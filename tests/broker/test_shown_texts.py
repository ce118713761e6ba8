"""What a confined learner says is shown on its owner's terminal, and steers none."""

import pytest

from privledger.broker.allowance import DEFAULTS
from privledger.broker.failures import error_in
from privledger.broker.remote import _failure

STEERING = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\r\x00gone"


@pytest.mark.parametrize("wire", [
    {"type": "ValueError" + STEERING, "text": STEERING},
    {"error": "InvalidValue", "text": STEERING},
    {"error": "PrivledgerError", "text": STEERING},
    {"error": "BudgetExceeded", "asked": "0x1p0", "spent": "0x0p0", "left": "0x0p0",
     "unit": STEERING, "fits": STEERING, "scope": STEERING}])
def test_what_a_learner_fails_with_has_no_escape_codes(wire):
    for error in (_failure(wire, None, DEFAULTS), *([error_in(wire)] if "error" in wire else [])):
        assert "gone" in str(error)
        assert str(error).replace("\n", "").isprintable()
