"""Where documents are kept: abstract bases in `base`, Postgres behind them. The only place that knows SQL."""
