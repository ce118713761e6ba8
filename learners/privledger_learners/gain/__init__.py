"""DPBoost: trees split by noisy gain. `rule` prices, `train` asks, `params` checks."""
