"""What workers of the tests are asked: in a module, because they load it by name."""

import os
import time
from pathlib import Path

import numpy as np

PLANTED = "Alice,hiv=1"


def whole(table):
    """A whole number per row, so that sums are exact however they are divided."""
    return np.where(table["t"] > 0.5, 1.0, -1.0)


def tells(table):
    """Fails, and says a value in every way that it can."""
    print(PLANTED)
    raise ValueError(PLANTED, table["t"][:3])


def leaves(table):
    """Fails by what is no `Exception`."""
    raise SystemExit(PLANTED)


def dies_once(table):
    """The first worker that comes here is killed, and nobody after it."""
    try:
        os.close(os.open(Path(os.environ["PRIVLEDGER_TEST_FLAG"]), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return whole(table)
    os.kill(os.getpid(), 9)


def is_slow(table):
    """Long enough for something to happen in between."""
    time.sleep(0.5)
    return whole(table)
