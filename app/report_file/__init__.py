"""A run's report as one file. Knows the JSON of reports; no server, no table, no script."""
