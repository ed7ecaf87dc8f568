"""Repair: plan (data) -> apply -> undo, and one builder for each thing that can be rebuilt.

`plan` has the plan as data, `plan_json` reads and writes it, `table` says what an action is, `planning` makes
a plan of a report, `worktree` is what an action may change. `applying` carries a plan out: `building` in an
`area` beside the store, judged by `judging` and the `ledger`, then `publish`; `undoing` takes it back. All
that they change goes through `fileops`.
"""
