package rocketfsck.oracle;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** One message store of whichever version is on the class path, opened as a lonely master opens it. */
public final class RealStore {
    private static final long DISPATCH_LIMIT_MS = 60_000;
    private static final int STEADY_LOOKS = 3;
    private static final long LOOK_INTERVAL_MS = 5;

    private final DefaultMessageStore store;

    private RealStore(DefaultMessageStore store) {
        this.store = store;
    }

    static RealStore of(JSONObject job) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        String root = job.getString("store");
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        Settings.setAll(config, job.getJSONObject("settings"));
        BrokerConfig broker = new BrokerConfig();
        MessageArrivingListener nobody = (topic, queue, offset, tags, stored, filter, properties) -> {};
        Constructor<?> constructor = kind(job).getConstructors()[0];
        Object[] given = constructor.getParameterCount() == 4
                ? new Object[] {config, statistics(), nobody, broker}
                : new Object[] {config, statistics(), nobody, broker, topics(job)};
        // Every construction writes to the same static TreeMap of StoreStatsService, without a lock.
        synchronized (RealStore.class) {
            DefaultMessageStore store = (DefaultMessageStore) constructor.newInstance(given);
            tellTopics(store, job);
            return new RealStore(store);
        }
    }

    /** The store that a broker makes for its storeType. */
    private static Class<?> kind(JSONObject job) throws ClassNotFoundException {
        String type = job.getJSONObject("settings").getString("storeType");
        return type != null && type.startsWith("defaultRocksDB")
                ? Class.forName("org.apache.rocketmq.store.RocksDBMessageStore")
                : DefaultMessageStore.class;
    }

    /** 5.0.0 takes the topics after the construction, others with it or not at all. */
    private static void tellTopics(DefaultMessageStore store, JSONObject job) throws ReflectiveOperationException {
        for (Method method : DefaultMessageStore.class.getMethods()) {
            if (method.getName().equals("setTopicConfigTable")) {
                method.invoke(store, topics(job));
            }
        }
    }

    DefaultMessageStore messages() {
        return store;
    }

    /** Load, start, catch up. What is wrong if the store code refuses, null if all is well. */
    String begin() throws Exception {
        try {
            if (!store.load()) {
                return "load returned false";
            }
            standAlone();
            store.start();
        } catch (Exception | Error refusal) {
            return described(refusal);
        }
        awaitDispatch();
        return null;
    }

    void awaitDispatch() throws InterruptedException {
        awaitDispatch(store);
    }

    /** Until the dispatcher has nothing to do, several looks in a row: it counts before it writes. */
    public static void awaitDispatch(DefaultMessageStore store) throws InterruptedException {
        long limit = System.nanoTime() + DISPATCH_LIMIT_MS * 1_000_000;
        for (int steady = 0; steady < STEADY_LOOKS; ) {
            steady = store.dispatchBehindBytes() <= 0 ? steady + 1 : 0;
            if (System.nanoTime() > limit) {
                throw new IllegalStateException("dispatch is " + store.dispatchBehindBytes() + " bytes behind");
            }
            Thread.sleep(LOOK_INTERVAL_MS);
        }
    }

    public static String described(Throwable failure) {
        Throwable cause = failure instanceof InvocationTargetException ? failure.getCause() : failure;
        StackTraceElement[] trace = cause.getStackTrace();
        return cause + (trace.length == 0 ? "" : " at " + trace[0]);
    }

    /**
     * No replicas: from 5.x on the HA service is an interface, and one that does nothing takes its place
     * (nobody asks it anything when there are no slaves). Before, its socket is moved to the loopback address.
     */
    private void standAlone() throws ReflectiveOperationException {
        Field field = accessible(DefaultMessageStore.class, "haService");
        if (field.getType().isInterface()) {
            ClassLoader loader = field.getType().getClassLoader();
            Class<?>[] faces = {field.getType()};
            field.set(store, Proxy.newProxyInstance(loader, faces, (self, method, given) -> nothing(method)));
            return;
        }
        Object service = field.get(store);
        Object acceptor = accessible(service.getClass(), "acceptSocketService").get(service);
        Field address = accessible(acceptor.getClass(), "socketAddressListen");
        address.set(acceptor, new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    }

    private static Object nothing(Method method) {
        Class<?> type = method.getReturnType();
        if (type == boolean.class) {
            return false;
        }
        if (type == int.class) {
            return 0;
        }
        return type == long.class ? (Object) 0L : null;
    }

    public static Field accessible(Class<?> owner, String name) throws NoSuchFieldException {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static BrokerStatsManager statistics() throws ReflectiveOperationException {
        try {
            return BrokerStatsManager.class.getConstructor(String.class, boolean.class).newInstance("oracle", false);
        } catch (NoSuchMethodException before490) {
            return BrokerStatsManager.class.getConstructor(String.class).newInstance("oracle");
        }
    }

    /** Topics whose queues are batch queues must be known as such; of others the store asks nothing. */
    private static ConcurrentMap<String, TopicConfig> topics(JSONObject job) throws ReflectiveOperationException {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        JSONArray names = job.getJSONArray("batchTopics");
        for (int i = 0; i < names.size(); i++) {
            TopicConfig topic = new TopicConfig(names.getString(i));
            Method attributes = TopicConfig.class.getMethod("setAttributes", Map.class);
            attributes.invoke(topic, Map.of("queue.type", "BatchCQ"));
            topics.put(topic.getTopicName(), topic);
        }
        return topics;
    }
}
