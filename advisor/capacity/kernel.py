"""The loop of the simulation: one engine step after another, as vLLM's V1 scheduler forms them.

One function, run as it stands or compiled: it only indexes, adds, multiplies and compares, on lists or on numpy
vectors alike, so that both ways give the same bits. That is also why it is one long function without calls.

A step serves the requests that decode (1 + k tokens each), then prompts begun earlier, then newly admitted ones, until
the token budget is spent. A request is admitted when its whole sequence fits into free KV blocks; when one that runs
finds no block, the youngest is preempted and computed anew later. Blocks follow from tokens (a request of t tokens
holds t / block, rounded up), so they are only counted while memory is short.
"""

from __future__ import annotations

from typing import Any

MODULUS = 2147483647
"""2^31 - 1: the generator x -> 48271 x mod (2^31 - 1) has this period and stays within 64 bits."""

BUSY_S, STEPS, RUNNING_S, KV_TOKEN_S, PEAK_KV_TOKENS, PREEMPTIONS = range(6)
NOW, NEW, DECODING, COUNT, STACKED, FINISHED, HELD, DECODE_HELD, STATE = range(6, 15)
TOTALS = 15
"""Length of `totals`; the names above are its places, those of the second line what the next call goes on from. All are
whole numbers that a float holds exactly, the time apart, which is one."""


def run_steps(
    arrival_s: Any,
    prompt: Any,
    cached: Any,
    last_token: Any,
    max_num_seqs: int,
    token_budget: int,
    extra_slots: int,
    kv_blocks: int,
    block_tokens: int,
    k_of: Any,
    row_of: Any,
    accept: Any,
    positions: int,
    decode_ms: Any,
    contexts: int,
    context_step: float,
    prefill_ms: Any,
    prefill_points: int,
    prefill_step: float,
    alone_ms: float,
    most_steps: int,
    first_s: Any,
    finish_s: Any,
    preempted: Any,
    tokens: Any,
    goal: Any,
    active: Any,
    stack: Any,
    totals: Any,
) -> None:
    """Run requests to their ends, or for `most_steps` steps: the next call with the same arguments goes on from there,
    and `totals[FINISHED]` says whether one is needed. A compiled loop hears no signal, so it must come up for air.

    Requests are in order of arrival; `cached` prompt tokens cost no prefill. A request has its last output token when
    its KV holds `last_token` tokens, prompt and output less one: the KV of a token is made in the step after it.
    `k_of[n]` is k with n requests decoding, `row_of[k]` its row in `accept` ([row][position], chance that the position
    is accepted) and in `decode_ms` ([row][requests][context], milliseconds). `prefill_ms[i]` is what i x prefill_step
    prompt tokens add to a step, `alone_ms` what a step without decoding requests costs besides. kv_blocks 0 is no
    limit. Results go into first_s, finish_s, preempted and totals; tokens (KV computed), goal (KV at the end of the
    prefill), active and stack are working space of the number of requests.
    """
    n = len(arrival_s)
    now = totals[NOW]
    new = int(totals[NEW])
    decoding = int(totals[DECODING])
    count = int(totals[COUNT])
    stacked = int(totals[STACKED])
    finished = int(totals[FINISHED])
    held = int(totals[HELD])
    decode_held = int(totals[DECODE_HELD])
    state = int(totals[STATE])
    taken = 0
    while finished < n and taken < most_steps:
        taken += 1
        if count == 0 and stacked == 0 and arrival_s[new] > now:
            now = arrival_s[new]
        k = k_of[decoding]
        width = 1 + k + extra_slots
        scheduled = decoding
        if scheduled * width > token_budget:
            scheduled = max(1, token_budget // width)
        short = kv_blocks > 0 and (held + token_budget) // block_tokens + max_num_seqs + 1 > kv_blocks
        used = 0
        stopped = False

        # --- those that decode, oldest first: each gets the blocks of its next tokens, if need be from the youngest
        if short:
            for j in range(count):
                used += (tokens[active[j]] + block_tokens - 1) // block_tokens
            j = 0
            while j < scheduled:
                r = active[j]
                need = (tokens[r] + k + block_tokens) // block_tokens - (tokens[r] + block_tokens - 1) // block_tokens
                while used + need > kv_blocks and count > 1:
                    count -= 1
                    last = active[count]
                    used -= (tokens[last] + block_tokens - 1) // block_tokens
                    held -= tokens[last]
                    if count < decoding:
                        # Its prefill is now all it had, and the token it had just been given.
                        goal[last] = tokens[last] + 1
                        decode_held -= tokens[last]
                        decoding = count
                        scheduled = min(scheduled, decoding)
                    tokens[last] = 0
                    preempted[last] += 1
                    totals[PREEMPTIONS] += 1.0
                    stack[stacked] = last
                    stacked += 1
                    stopped = True
                    if last == r:
                        break
                if j < count:
                    used += need
                j += 1
        left = max(0, token_budget - scheduled * width)
        added_ms = 0.0

        # --- prompts begun in an earlier step
        j = decoding
        while j < count and left > extra_slots:
            r = active[j]
            chunk = min(goal[r] - tokens[r], left - extra_slots)
            if short:
                need = (tokens[r] + chunk + block_tokens - 1) // block_tokens
                need -= (tokens[r] + block_tokens - 1) // block_tokens
                while used + need > kv_blocks and count > 1:
                    count -= 1
                    last = active[count]
                    used -= (tokens[last] + block_tokens - 1) // block_tokens
                    held -= tokens[last]
                    tokens[last] = 0
                    preempted[last] += 1
                    totals[PREEMPTIONS] += 1.0
                    stack[stacked] = last
                    stacked += 1
                    stopped = True
                    if last == r:
                        break
                if j >= count:
                    break
                used += need
            at = tokens[r] / prefill_step
            i = min(int(at), prefill_points - 2)
            before = prefill_ms[i] + (at - i) * (prefill_ms[i + 1] - prefill_ms[i])
            tokens[r] += chunk
            held += chunk
            left -= chunk + extra_slots
            at = tokens[r] / prefill_step
            i = min(int(at), prefill_points - 2)
            added_ms += prefill_ms[i] + (at - i) * (prefill_ms[i + 1] - prefill_ms[i]) - before
            j += 1

        # --- newly admitted: the preempted first, then in order of arrival
        while not stopped and left > extra_slots and count < max_num_seqs:
            if stacked > 0:
                r = stack[stacked - 1]
            elif new < n and arrival_s[new] <= now:
                r = new
                goal[r] = prompt[r]
            else:
                break
            start = min(cached[r], goal[r] - 1)
            if kv_blocks > 0 and not short and (held + goal[r]) // block_tokens + max_num_seqs + 1 > kv_blocks:
                # Cached tokens come on top of the budget: from here on blocks are counted.
                short = True
                used = 0
                for j in range(count):
                    grow = 1 + k if j < scheduled else 0
                    used += (tokens[active[j]] + grow + block_tokens - 1) // block_tokens
            if short and count > 0:
                need = (goal[r] + block_tokens - 1) // block_tokens
                if used + need > kv_blocks:
                    break
            if stacked > 0:
                stacked -= 1
            else:
                new += 1
            chunk = min(goal[r] - start, left - extra_slots)
            at = start / prefill_step
            i = min(int(at), prefill_points - 2)
            before = prefill_ms[i] + (at - i) * (prefill_ms[i + 1] - prefill_ms[i])
            tokens[r] = start + chunk
            held += start + chunk
            used += (start + chunk + block_tokens - 1) // block_tokens
            left -= chunk + extra_slots
            at = tokens[r] / prefill_step
            i = min(int(at), prefill_points - 2)
            added_ms += prefill_ms[i] + (at - i) * (prefill_ms[i + 1] - prefill_ms[i]) - before
            active[count] = r
            count += 1

        # --- the step's time
        row = row_of[k]
        step_ms = added_ms
        if scheduled > 0:
            at = decode_held / decoding / context_step
            i = min(int(at), contexts - 2)
            base = (row * (max_num_seqs + 1) + scheduled) * contexts + i
            step_ms += decode_ms[base] + (at - i) * (decode_ms[base + 1] - decode_ms[base])
        else:
            step_ms += alone_ms
        step_s = step_ms / 1000.0
        now += step_s
        totals[BUSY_S] += step_s
        totals[STEPS] += 1.0
        totals[RUNNING_S] += step_s * count
        totals[KV_TOKEN_S] += step_s * held
        totals[PEAK_KV_TOKENS] = max(totals[PEAK_KV_TOKENS], float(held))

        # --- what it gave: tokens of those that decode
        write = 0
        for j in range(decoding):
            r = active[j]
            if j < scheduled:
                gained = 1
                if k > 0:
                    state = state * 48271 % MODULUS
                    chance = state / 2147483647.0
                    at_position = row * positions
                    end = at_position + k
                    while at_position < end and chance < accept[at_position]:
                        at_position += 1
                        gained += 1
                grown = tokens[r] + gained
                if grown >= last_token[r]:
                    finish_s[r] = now
                    finished += 1
                    held -= tokens[r]
                    decode_held -= tokens[r]
                    continue
                tokens[r] = grown
                held += gained
                decode_held += gained
            active[write] = r
            write += 1

        # --- and the first token of each prompt that is done
        begun = decoding
        decoding = write
        for j in range(begun, count):
            r = active[j]
            if tokens[r] == goal[r]:
                if first_s[r] < 0.0:
                    first_s[r] = now
                if tokens[r] >= last_token[r]:
                    finish_s[r] = now
                    finished += 1
                    held -= tokens[r]
                    continue
                decode_held += tokens[r]
                decoding += 1
            active[write] = r
            write += 1
        count = write

    totals[NOW] = now
    totals[NEW] = new
    totals[DECODING] = decoding
    totals[COUNT] = count
    totals[STACKED] = stacked
    totals[FINISHED] = finished
    totals[HELD] = held
    totals[DECODE_HELD] = decode_held
    totals[STATE] = state
