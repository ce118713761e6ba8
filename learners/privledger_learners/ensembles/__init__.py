"""Private partitioning ensembles: median trees that never look at labels (paper 001)."""
