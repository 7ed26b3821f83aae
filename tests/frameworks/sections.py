# SPDX-License-Identifier: Apache-2.0
"""What the programs here share: named sections, whose results can be compared between a native run
and one in a guest.

Each section runs by itself; a failure is its result. For every section one line of JSON goes to
standard output: its name, value (a number, text, or a list of them), seconds, the tolerance for
comparing numbers, and the error.
"""

import faulthandler
import json
import os
import sys
import time
import traceback

_sections = []
_begin = time.perf_counter()

if "WATCHED_SECONDS" in os.environ:  # of watched.py
    faulthandler.dump_traceback_later(float(os.environ["WATCHED_SECONDS"]))


def section(name, tolerance=1e-4, repeat=1):
    """Registers a function as a section. It is timed on its last repetition."""

    def add(function):
        _sections.append((name, function, tolerance, repeat))
        return function

    return add


def report(name, value=None, seconds=None, tolerance=0, error=None):
    print(json.dumps({"name": name, "value": value, "seconds": seconds, "tolerance": tolerance,
                      "error": error}), flush=True)


def imported(name):
    """Reports how long the program has taken so far."""
    report(name, seconds=time.perf_counter() - _begin)


def run(synchronize=lambda: None):
    """Runs all sections, or those whose names contain one of the arguments."""
    for name, function, tolerance, repeat in _sections:
        if len(sys.argv) > 1 and not any(a in name for a in sys.argv[1:]):
            continue
        try:
            for _ in range(repeat):
                begin = time.perf_counter()
                value = function()
                synchronize()
            report(name, value, time.perf_counter() - begin, tolerance)
        except Exception as e:  # pylint: disable=broad-except
            traceback.print_exc()
            report(name, error=f"{type(e).__name__}: {e}".splitlines()[0][:300])
