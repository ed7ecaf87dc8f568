"""Repair: plan (data) -> apply -> undo, and one builder for each thing that can be rebuilt.

`plan` has the plan as data, `table` the actions, `planning` makes a plan of a report, `worktree` is what an
action may change, `applying` and `undoing` carry out and take back.
"""
