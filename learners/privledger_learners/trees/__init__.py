"""What every tree learner shares: growing, leaf statistics, smoothing, the estimator's frame."""
