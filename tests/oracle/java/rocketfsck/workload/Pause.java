package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** Nothing is done for {@code ms} milliseconds. */
public final class Pause implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Thread.sleep(given.getLongValue("ms"));
    }
}
