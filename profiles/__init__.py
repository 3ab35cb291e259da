"""What is known: facts, what the user states, and the shapes in which evidence travels. Imports no other room."""
