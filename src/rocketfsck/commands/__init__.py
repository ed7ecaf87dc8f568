"""What rocketfsck does, without a terminal: a dataclass of options, a function from it to an answer.

    from rocketfsck.commands.check import CheckCommand, check
    answer = check(CheckCommand((Path("/data/rocketmq/store"),), CheckOptions(level="cross")))
    print(answer.verdict.state, answer.exit_code)

The command line, programs, jobs and tests call the same functions. `cli.adapter` makes a command line of the
dataclass, and a module of `cli.commands` shows the answer.
"""
