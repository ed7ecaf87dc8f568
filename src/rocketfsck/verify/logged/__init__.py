"""What a broker logs about its store, and what that means.

    statements.tsv    every statement of the released sources: class#method, level, versions, template
    families/         what statements mean that say the same, as rows; issues of the tracker; what to do
    areas.json        what the classes do, for a statement without a row of its own
    areas.py          what a row is; reads the rows
    matching.py       a message as one of the statements, with what is in the holes of its template
    answers.py        texts as entries (a message, its level, the frames of a stack trace), entries as answers

Nothing of it reads a store or loads NumPy; `query.evidence` looks up what a line names.
"""
