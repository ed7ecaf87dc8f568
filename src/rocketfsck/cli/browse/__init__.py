"""`rocketfsck browse STORE`: a store in a terminal. `model` fetches what is looked at, `views` show it.

Only `views` imports Textual, which the extra `browse` installs; `model` is plain Python without a terminal.
"""
