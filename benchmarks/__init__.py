"""What rocketfsck's bulk paths cost, as ratios to reading the same bytes once: `python -m benchmarks`."""
