package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** The nodes that were stopped are started again, with their settings. */
public final class StartAgain implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        group.startStopped();
    }
}
