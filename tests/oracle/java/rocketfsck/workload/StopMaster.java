package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** The master is stopped in order; where there is a controller, another node takes its place. */
public final class StopMaster implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        group.quiet();
        group.stop(group.numberOf(group.master()));
    }
}
