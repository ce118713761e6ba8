"""An interrupt that a schedule raises never reaches the program that runs the schedule."""

from __future__ import annotations

import threading
import time

from privledger import mutex
from tests.simulation.schedules import inside
from tests.simulation.world import Interrupt, World


def test_an_interrupt_in_a_callback_of_the_collector_does_not_reach_the_runner():
    class Dropped:
        def __del__(self):
            with mutex.delivered():
                raise Interrupt

    before = threading.active_count()
    with inside(World(1)) as world:
        world.add(lambda: [Dropped() for _ in range(3)] and None)
        world.run()
    time.sleep(0.05)  # what it would have sent comes after .01 s
    assert threading.active_count() <= before + 1  # the schedule's own thread, no timer
