"""Where a plan is executed: torch (a real model), simulated (a cost model), null (nothing)."""
