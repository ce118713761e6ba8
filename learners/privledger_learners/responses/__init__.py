"""Learning from labels that answered by randomised response; only released values go in."""
