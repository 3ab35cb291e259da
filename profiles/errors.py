"""The error tree. One sentence each: what, where, what was expected, what to do next.

SpecadviseError            anything this tool says on purpose; carries the exit code of the shell contract
├── InputError        (2)  wrong use or unreadable input: a field, a file, a flag
│   └── ModelNotFound (2)  a model id or folder that cannot be resolved here
│       └── TokenizerMissing (2) its tokenizer cannot be had here
└── ProbeError        (4)  a probe or the engine failed
    └── EngineError   (4)  the engine's own last error, in one line
An abstention is not an error: it is a decision (exit code 3).
"""

from __future__ import annotations

from profiles.printable import masked

EXIT_OK = 0
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_ABSTAINED = 3
EXIT_PROBE_FAILED = 4


class SpecadviseError(Exception):
    """Base of all expected failures. `str(error)` is the sentence the user reads: what looks like a key is masked in
    it, wherever it then goes."""

    exit_code: int = EXIT_USAGE

    def __init__(self, *told: object) -> None:
        super().__init__(*(masked(one) if isinstance(one, str) else one for one in told))


class InputError(SpecadviseError):
    """The user's input is wrong: the message names the field or file, the value, and what was expected."""

    exit_code = EXIT_USAGE


class ModelNotFound(InputError):
    """A target or draft that is neither a folder, nor in the local cache, nor reachable on the hub."""


class TokenizerMissing(ModelNotFound):
    """The target's tokenizer cannot be had here: texts cannot be cut into its tokens."""


class ProbeError(SpecadviseError):
    """A measurement could not be made: server down, no driver, permission refused, engine dead."""

    exit_code = EXIT_PROBE_FAILED


class EngineError(ProbeError):
    """The inference engine refused to start, crashed or hung; the message is its own last error line."""
