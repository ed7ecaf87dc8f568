package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import org.apache.rocketmq.store.DefaultMessageStore;

/** The master deletes the files whose time is over, as it does by hand and every ten seconds: {@code times} rounds. */
public final class Expire implements Work {
    private static final long BETWEEN_MS = 300;

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        DefaultMessageStore store = group.master().messages();
        Method clean = DefaultMessageStore.class.getDeclaredMethod("cleanFilesPeriodically");
        clean.setAccessible(true);
        for (int round = 0; round < given.getIntValue("times"); round++) {
            store.executeDeleteFilesManually();
            clean.invoke(store);
            Thread.sleep(BETWEEN_MS);
        }
    }
}
