package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** All nodes are awaited to have the whole log of the master, and to have dispatched it; slaves take its topics. */
public final class InSync implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        group.awaitSync();
    }
}
