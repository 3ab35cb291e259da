"""What is decided: pure functions of profiles and evidence. Only `advisor.cli` touches files, clocks and probes."""
