"""Lives that the web process starts, watches and stops: of the engine (engine_life) and of load runs (load_runs)."""
