package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** The node {@code node} of a group is stopped in order. */
public final class Stop implements Work {
    @Override
    public void run(Group group, JSONObject given) {
        group.quiet();
        group.stop(given.getIntValue("node"));
    }
}
