package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.store.DefaultMessageStore;
import rocketfsck.oracle.RealStore;

/** The clock of the master's store is set: by {@code ms} milliseconds against the machine's, from now on. */
public final class Clock implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        long difference = given.getLongValue("ms");
        DefaultMessageStore store = group.master().messages();
        SystemClock clock = new SystemClock() {
            @Override
            public long now() {
                return System.currentTimeMillis() + difference;
            }
        };
        RealStore.accessible(DefaultMessageStore.class, "systemClock").set(store, clock);
    }
}
