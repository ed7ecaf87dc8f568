package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.rocketmq.store.DefaultMessageStore;
import rocketfsck.oracle.RealStore;

/**
 * The master deletes the files whose time is over, as it does by hand and every ten seconds: {@code times} rounds of
 * the log, then of queues and index.
 */
public final class Expire implements Work {
    private static final long BETWEEN_MS = 300;

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        DefaultMessageStore store = group.master().messages();
        for (int round = 0; round < given.getIntValue("times"); round++) {
            store.executeDeleteFilesManually();
            cleanAll(store);
            Thread.sleep(BETWEEN_MS);
        }
    }

    /** Queues and index have a task of their own in later versions, at last one of the class of queues. */
    private static void cleanAll(DefaultMessageStore store) throws ReflectiveOperationException {
        clean(store, DefaultMessageStore.class, "cleanFilesPeriodically");
        clean(store, DefaultMessageStore.class, "cleanQueueFilesPeriodically");
        for (Field field : DefaultMessageStore.class.getDeclaredFields()) {
            if (field.getName().equals("consumeQueueStore")) {
                Object queues = RealStore.accessible(DefaultMessageStore.class, field.getName()).get(store);
                clean(queues, queues.getClass(), "cleanQueueFilesPeriodically");
            }
        }
    }

    private static void clean(Object owner, Class<?> type, String name) throws ReflectiveOperationException {
        for (Method method : type.getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                method.setAccessible(true);
                method.invoke(owner);
            }
        }
    }
}
