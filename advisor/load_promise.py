"""The load that runs against the load that was decided for: whether the record speaks of it at all, and what holds
there.

A record promises at the load it was decided for, and, where it has a schedule, in all of its bands. At another load
that it priced the break-even there says whether speculation still pays; at one that it did not price nothing is known,
and nothing is called held.
"""

from __future__ import annotations

from advisor.promise import BEYOND, k_asked, largest_load
from advisor.record import Record
from advisor.verdict import Promise, Verdict, ends
from profiles.schema import Quantity, Source

FAR = 1.5
"""Factor between the load decided for and the one that runs from which it is another one."""


def priced_there(record: Record, running: float) -> bool:
    """Whether the record's cells say anything of a load."""
    smallest = min((cell.running for cell in record.candidates), default=0)
    return smallest / BEYOND <= running <= BEYOND * largest_load(record)


def load_promise(record: Record, load: Quantity | None, idle: bool, gain: Promise | None) -> Promise:
    """Judge the load of one engine.

    load: running requests as the server showed them. gain: what was found of break-even at that load; None where
    speculation does not run, or not as recorded.
    """
    decided = Quantity(value=record.decision.running, source=_source(record), note="the load decided for")
    if load is None or idle:
        why = ("The server does not export how many requests run" if load is None else
               f"The server was idle ({load.value:.2g} running on average)")
        return Promise(code="load", verdict="undecided" if load is not None else "noted", promised=decided, found=load,
                       unit="running requests", sentence=f"{why}; decided for {record.decision.running}.")
    verdict, words = _judged(record, load, gain)
    return Promise(code="load", verdict=verdict, promised=decided, found=load, unit="running requests",
                   sentence=f"{shown(load.value)} running{shown_range(load)}, decided for "
                            f"{record.decision.running}{words}.")


def _source(record: Record) -> Source:
    """Where the load decided for comes from: of a rate it follows by Little's law."""
    told = record.workload_sources
    if "arrival_rate_rps" in told:
        return Source.MODELLED
    read = told.get("concurrency", "").startswith(("recorded", "read from the server"))
    return Source.RECORDED if read else Source.ASSUMED


def _decided_loads(record: Record) -> tuple[float, float]:
    """The loads that the decision is about: at a stated rate what runs with and without speculation."""
    running, rate = float(record.decision.running), record.at_rate
    if rate is None or record.decision.enable is not True:
        return running, running
    return min(running, rate.running_with), max(running, rate.running_with)


def _judged(record: Record, load: Quantity, gain: Promise | None) -> tuple[Verdict, str]:
    decision = record.decision
    low, high = ends(load)
    at = max(1.0, load.value)
    cross, schedule = decision.crossover_load, decision.schedule
    if decision.enable is True and cross is not None and high >= cross:
        if low < cross:
            return "noted", f": near the crossover at {cross}, from which on no k gains"
        words = f": beyond the crossover at {cross}, from which on no k gains"
        if schedule and k_asked(record, low) == 0:
            return "noted", f"{words}; the schedule drafts nothing there, and the draft only takes memory"
        return "broken", words
    if decision.enable is True and schedule and low > schedule[-1][1]:
        return "broken", f": beyond the schedule, whose last band ends at {schedule[-1][1]}"
    if not priced_there(record, at):
        smallest = min((cell.running for cell in record.candidates), default=0)
        bound = f"above {largest_load(record)}" if at > smallest else f"below {smallest}"
        return "undecided", f": the record priced no load {bound}, so that nothing it says can be held against this one"
    verdict, words = _at_priced(record, load, gain)
    largest = largest_load(record)
    if at <= largest:
        return verdict, words
    read = f"the figures are those of {largest}, the largest load that the record priced"
    return "noted" if verdict == "held" else verdict, f"{words}; {read}" if words else f": {read}"


def _at_priced(record: Record, load: Quantity, gain: Promise | None) -> tuple[Verdict, str]:
    """Of a load that the record speaks of."""
    decision = record.decision
    low, high = ends(load)
    at, cross, schedule = max(1.0, load.value), decision.crossover_load, decision.schedule
    if schedule and k_asked(record, at) != k_asked(record, decision.running):
        return "held", (f": another band of the schedule, k = {k_asked(record, at)} instead of "
                        f"{k_asked(record, decision.running)}")
    if decision.enable is False and cross is not None and high < cross and cross <= decision.running:
        return "noted", f": below the crossover at {cross}, where speculation may gain"
    fewest, most = _decided_loads(record)
    if schedule or (low <= FAR * most and high >= fewest / FAR):
        return "held", ""
    if gain is None or gain.verdict == "held":
        return "held", ": another load, judged by what the record says of it"
    if gain.verdict == "noted":
        # Good enough where it was decided, and more than nothing: no promise for this load.
        return "undecided", ": another load, and whether speculation pays there is open"
    return "noted", ": another load, judged by break-even there"


def shown(value: float) -> str:
    """A number as a sentence has it."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def shown_range(found: Quantity) -> str:
    """Its interval in brackets, or nothing where there is none."""
    low, high = ends(found)
    return f" ({shown(low)} to {shown(high)})" if low < high else ""
