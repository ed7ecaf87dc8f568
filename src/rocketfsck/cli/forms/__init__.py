"""A check's report in the forms of other tools: SARIF for code hosts, JUnit for CI, OpenMetrics for monitors.

Each form is a generator of pieces of text, so that a report of a million findings is never in memory twice.
What a store says is hostile: it leaves here as printable text, quoted as the form quotes.
"""
