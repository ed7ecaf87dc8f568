"""Lines of replication: master and slave, controller mode, DLedger."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.logged.model import Family, Issue

FAMILIES = (
    Family(
        "slave-position",
        "damage",
        "The master sends from another offset than the slave's log ends at. The slave closes the connection"
        " and tries again, without end if the two logs do not join: the slave ends where the master has no "
        "record, or the master has deleted that part.",
        "Compare the two stores: `compare` says where they part and which one is ahead.",
        begins=("master pushed offset not equal the max phy offset in slave",),
        command="compare STORE OTHER_STORE",
        issues=(Issue(3388), Issue(323)),
    ),
    Family(
        "slave-ahead",
        "damage",
        "A slave reports a larger offset than the master's log has: the master lost its tail, or somebody "
        "else connected to the port. The master closes the connection.",
        "Compare the stores before messages are written to the master: the slave may have messages that the"
        " master lost.",
        begins=("slave[{",),
        command="compare STORE OTHER_STORE",
        issues=(Issue(3015, "4.9.4 at the latest"), Issue(1155)),
    ),
    Family(
        "replica-timeout",
        "notice",
        "No slave confirmed a message in time. The message is in this store's log, and the producer saw a "
        "failure.",
        "Look at the slave and the network; nothing is wrong with this store.",
        begins=("transfer mess", "do sync transfer other node"),
        command="compare STORE OTHER_STORE",
    ),
    Family(
        "replica-connection",
        "normal",
        "The connection between master and slave was closed, refused or lost. The slave connects again by "
        "itself.",
        "Nothing to do for the store. If the line does not end, look at the network and at the other broker.",
        begins=(
            "HAClient",
            "AutoRecoverHAClient",
            "AutoSwitchHAClient, ",
            "AutoSwitchHAClient connect",
            "AutoSwitchHAClient report",
            "ha housekeeping",
            "read socket[",
            "processReadEvent",
            "closeMaster exception",
            "CloseMaster exception",
            "Close the selector",
            "new HAConnection exception",
            "Unexpected ops in select",
            "AcceptSocketService shutdown",
            "Exception: ha master write",
            "Trigger HA flow control",
            "Wait HA connection establish",
            "Check connection address",
        ),
        command="",
    ),
    Family(
        "epoch-no-common-point",
        "damage",
        "The epochs of master and slave have no common point, or the slave could not cut its log to it. The"
        " slave does not follow the master.",
        "Compare the stores. A slave without messages of its own may be copied again from the master.",
        begins=(
            "Failed to find a consistent point between masterEpoch",
            "Failed to truncate slave log to",
            "AutoSwitchHAClient truncate log failed",
        ),
        command="compare STORE OTHER_STORE",
        rules=(RuleName.EPOCH_RANGE, RuleName.EPOCH_BOUNDARY),
        classes=("H3",),
        issues=(Issue(9942), Issue(6505)),
    ),
    Family(
        "epoch-file",
        "damage",
        "The file of epochs (epochFileCheckpoint) could not be read, written, or does not rise. In "
        "controller mode the broker does not join its group.",
        "Check says what is wrong in the file.",
        begins=(
            "Error happen when init epoch entries",
            "Error happen when flush epochEntries",
            "The appending entry's lastEpoch",
            "Can't find a bigger epochEntry",
            "Failed to find an epochEntry",
            "Failed to find epochEntry",
            "[BUG]Can't find currentTransferEpoch",
        ),
        rules=(RuleName.EPOCH_DAMAGED, RuleName.EPOCH_ORDER, RuleName.EPOCH_RANGE),
        classes=("H3",),
        issues=(Issue(6586), Issue(9689)),
    ),
    Family(
        "role-change",
        "notice",
        "Changing the role of this broker failed or was refused, because its epoch is older.",
        "See the controller's log. Compare the replicas before one of them is made master by hand.",
        begins=("newMasterEpoch", "Error happen when change ha to slave", "Slave {syncId} is still in"),
        command="compare STORE OTHER_STORE",
        classes=("H3",),
    ),
    Family(
        "dledger-append",
        "notice",
        "DLedger did not take a message: no leader, too many waiting requests, or a full disk. The producer"
        " saw a "
        "failure.",
        "Look at the other nodes; check this node's store if the line does not end.",
        begins=("HandleAppend return false", "Put message error"),
        rules=(RuleName.DLEDGER_ENTRY_PLACE,),
        classes=("H4",),
    ),
    Family(
        "dledger-old-log",
        "normal",
        "A broker that runs DLedger found a commit log of the time before, and reads on from its end.",
        "Nothing to do.",
        begins=(
            "Recover old commitlog",
            "Will set the initial commitlog offset",
            "Should not set confirm offset",
        ),
    ),
)
