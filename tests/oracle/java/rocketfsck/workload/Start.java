package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** The node {@code node}, which was stopped, is started again, with other settings in {@code broker}, {@code store}. */
public final class Start implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        group.start(given.getIntValue("node"), given);
    }
}
