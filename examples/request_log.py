"""A synthetic chat log on stdout, one OpenAI-style request and response a line, to try `probe requests` on.

    python -m examples.request_log > chat.jsonl
"""

from __future__ import annotations

import json
import random

REQUESTS = 2000
START = 1_760_000_000.0
KINDS = (
    (0.5, "How do I keep basil alive in winter? Question {}.", "Keep it warm, near a window, and water it sparingly."),
    (0.3, "Write a python function that parses the line {}.", "```python\ndef parse(line):\n    return line\n```"),
    (0.2, "Return the order {} as JSON.", '{{"order": {}, "state": "shipped"}}'),
)


def main() -> None:
    draw, now = random.Random(0), START
    for i in range(REQUESTS):
        now += draw.expovariate(2.0)
        _, question, answer = draw.choices(KINDS, [share for share, *_ in KINDS])[0]
        prompt, output = draw.randrange(30, 900), draw.randrange(20, 400)
        print(json.dumps({
            "id": f"chatcmpl-{i}", "start_time": now, "end_time": now + 0.15 + 0.02 * output, "ttft_s": 0.15,
            "request": {"model": "org/model", "temperature": draw.choice((0.0, 0.7, 0.7)),
                        "messages": [{"role": "user", "content": question.format(i)}]},
            "response": {"usage": {"prompt_tokens": prompt, "completion_tokens": output},
                         "choices": [{"message": {"role": "assistant", "content": answer.format(i)}}]},
        }))
    print('{"id": "chatcmpl-2000", "start_time": 17600')


if __name__ == "__main__":
    main()
