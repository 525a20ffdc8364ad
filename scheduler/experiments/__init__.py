"""Experiments of the literature, over the simulation: our figure beside the published or theoretical one. Print nothing."""
