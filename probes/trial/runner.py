"""The trial: baseline, candidates, comparison. Measures and keeps; what to compare and when to stop it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from probes.trial.arm import run_arm
from probes.trial.checkpoint import Write, written
from probes.trial.comparison import Stop, compare, room_for_both
from probes.trial.engine_process import EngineProcess, close_all
from probes.trial.plan import TrialPlan
from probes.trial.progress import Progress, Silent
from probes.trial.session import BUDGET_ENDED, LEAST_COMPARISON, Session
from profiles.deployment import Candidate
from profiles.evidence import ArmStatus, TrialEvidence

Choose = Callable[[TrialEvidence], "tuple[Candidate, int] | None"]


def run_trial(plan: TrialPlan, *, choose: Choose, stop: Stop, progress: Progress | None = None,
              checkpoint: Path | None = None, resume: bool | None = None,
              write: Write = written) -> TrialEvidence:
    """Run the plan on the real engine and return all that was measured.

    1. the baseline arm; 2. each candidate arm, one engine start each; 3. what `choose(evidence)` names, against the
    baseline in paired blocks until `stop(pairs)` gives a reason or the budget ends (`choose` may name nothing).
    A failed arm is marked and the others go on. KeyboardInterrupt ends the trial: what was measured comes back with
    `stopped` = "interrupted". `checkpoint` is written after every block and removed once nothing is left to resume;
    `resume` goes on from it, by default where there is one; `write` puts it in its place, whole where no signal and no
    full disk may leave half of it.

    Raises InputError where a checkpoint to resume is of another plan or unreadable. No engine outlives the call.
    """
    if resume is None:
        resume = checkpoint is not None and checkpoint.exists()
    session = Session(plan, progress or Silent(), checkpoint, resume, write)
    baseline: EngineProcess | None = None
    try:
        # On a CPU the baseline can stay resident, idle, beside each candidate; a GPU's memory is taken whole.
        keep = plan.on_cpu and bool(plan.arms) and room_for_both(session)
        session.expected.both, session.expected.beside = keep, keep and session.waits(plan.baseline)
        baseline = run_arm(session, plan.baseline, keep=keep)
        if not session.arms[plan.baseline.key].steps:
            _without_baseline(session)
            return session.evidence()
        for arm in plan.arms:
            if session.waits(arm) and not session.has_room():
                if session.status(arm) in (None, ArmStatus.SKIPPED):
                    session.change(arm, status=ArmStatus.SKIPPED, error="the budget ended before this arm")
                session.end_turn(arm)
                session.stopped = "budget"
                continue
            run_arm(session, arm)
        _compare(session, choose, stop, baseline)
        if session.stopped == "complete" and any(session.owed(a) and session.status(a) is ArmStatus.INTERRUPTED
                                                 for a in (plan.baseline, *plan.arms)):
            session.stopped = "budget"
    except KeyboardInterrupt:
        session.stopped = "interrupted"
        session.progress.note("interrupted: keeping what was measured")
    finally:
        if baseline is not None:
            session.close(plan.baseline, baseline)
        close_all()
    session.finish()
    return session.evidence()


def _without_baseline(session: Session) -> None:
    """The engine does not even run without speculation: nothing it does with it could be compared."""
    for arm in session.plan.arms:
        if session.status(arm) is None:
            session.change(arm, status=ArmStatus.SKIPPED, error="the engine did not run without speculation")
    session.stopped = "budget" if session.left_s <= 0 else "the baseline failed"


def _compare(session: Session, choose: Choose, stop: Stop, baseline: EngineProcess | None) -> None:
    baseline_arm = session.arms.get(session.plan.baseline.key)
    if baseline_arm is None or not baseline_arm.steps or not session.plan.arms:
        return
    if not session.comparison_open:
        return
    resumed = session.resumed_pairs
    chosen = choose(session.evidence()) if resumed is None else (resumed.candidate, resumed.k)
    if chosen is None:
        return
    candidate, k = chosen
    wanted = LEAST_COMPARISON * session.estimator.comparison_s(k)
    if resumed is not None:
        # Each pair is one more, and the engines are all that the first of them needs.
        wanted = session.estimator.start_s() * (1 if baseline is not None else 2) + session.estimator.pair_s(k)
    if session.left_s < wanted:
        session.stopped = "budget"
        return
    compare(session, candidate, k, stop, baseline)
    if session.comparison is not None and session.comparison.stopped == BUDGET_ENDED:
        # Not complete: the checkpoint stays, and --resume goes on with the pairs there are.
        session.stopped = "budget"
