"""What is measured: each probe turns one input into `Evidence`; none decides. May import profiles only."""
