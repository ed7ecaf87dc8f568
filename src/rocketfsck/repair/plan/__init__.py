"""The plan of a repair: from findings to actions, their law of safety, and the file `plan.json`."""
