"""The command line: one click command a file. The only place where probes and advisor meet, where files and the
environment are read, where anything is printed or exits."""
