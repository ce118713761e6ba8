"""What scikit-learn's own checks ask of the process they run in."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def array_interface(request, monkeypatch):
    """Its check of arrays under the array interface skips itself unless this is set."""
    if "check_array_api" in request.node.name:
        monkeypatch.setenv("SCIPY_ARRAY_API", "1")
