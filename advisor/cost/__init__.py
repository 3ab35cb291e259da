"""What a step costs: one protocol, two models behind it (from facts, from a trial), and the memory plan."""
