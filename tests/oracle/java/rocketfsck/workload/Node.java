package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Properties;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import rocketfsck.oracle.RealStore;
import rocketfsck.oracle.Settings;

/** One real broker, started on a store of its own. */
public final class Node {
    public static final String CLUSTER = "Workloads";
    public static final String NAME = "broker-a";
    private static final int PORTS = 4;
    private static final int LISTEN = 2; // a broker also listens two ports below its own, and on one for replicas
    private static final long METRICS_MS = 500; // a service of 5.x keeps a core busy for so long when it starts

    private final BrokerController controller;
    private final int port;

    private Node(BrokerController controller, int port) {
        this.controller = controller;
        this.port = port;
    }

    /**
     * Starts a broker. {@code given}: {@code root} (the store), {@code broker} and {@code store} (settings of
     * BrokerConfig and MessageStoreConfig), {@code more} (settings of what is plugged in) and {@code rights}
     * (of AuthConfig). {@code controller} is the address of a controller, or null.
     */
    static Node start(JSONObject given, String nameServer, String controller) throws Exception {
        int port = Ports.free(PORTS) + LISTEN;
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerName(NAME);
        broker.setBrokerClusterName(CLUSTER);
        broker.setBrokerIP1("127.0.0.1");
        broker.setBrokerIP2("127.0.0.1");
        broker.setNamesrvAddr(nameServer);
        broker.setDefaultTopicQueueNums(2);
        Settings.set(broker, "listenPort", port);
        Settings.set(broker, "transactionMetricFlushInterval", METRICS_MS);
        Settings.setAll(broker, given.getJSONObject("broker"));
        if (controller != null) {
            Settings.set(broker, "controllerAddr", controller);
        }
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        MessageStoreConfig store = new MessageStoreConfig();
        String root = given.getString("root");
        store.setStorePathRootDir(root);
        store.setStorePathCommitLog(root + "/commitlog");
        store.setHaListenPort(port + 1);
        Settings.setAll(store, given.getJSONObject("store"));
        BrokerController made = made(broker, server, store, given);
        if (!given.getJSONObject("more").isEmpty()) {
            Properties more = new Properties();
            given.getJSONObject("more").forEach((name, value) -> more.setProperty(name, String.valueOf(value)));
            made.getConfiguration().registerConfig(more);
        }
        if (!made.initialize()) {
            throw new IllegalStateException("initialize returned false");
        }
        made.start();
        return new Node(made, port);
    }

    /** The constructor with most settings that this version has: later ones take those of ACLs, too. */
    private static BrokerController made(
            BrokerConfig broker, NettyServerConfig server, MessageStoreConfig store, JSONObject own) throws Exception {
        Constructor<?> constructor = Arrays.stream(BrokerController.class.getConstructors())
                .filter(made -> made.getParameterCount() <= 5 && made.getParameterCount() >= 4)
                .max(Comparator.comparing(Constructor::getParameterCount))
                .orElseThrow();
        Object[] given = {broker, server, new NettyClientConfig(), store, null};
        if (constructor.getParameterCount() == given.length) {
            Object rights = constructor.getParameterTypes()[given.length - 1].getConstructor().newInstance();
            Settings.set(rights, "configName", own.getString("root")); // of which a process has one each
            Settings.set(rights, "clusterName", CLUSTER);
            Settings.set(rights, "authConfigPath", own.getString("root") + "/config");
            Settings.setAll(rights, own.getJSONObject("rights"));
            given[given.length - 1] = rights;
        }
        return (BrokerController) constructor.newInstance(Arrays.copyOf(given, constructor.getParameterCount()));
    }

    public BrokerController controller() {
        return controller;
    }

    public String address() {
        return controller.getBrokerConfig().getBrokerIP1() + ":" + port;
    }

    boolean isMaster() throws ReflectiveOperationException {
        return controller.getMessageStoreConfig().getBrokerRole() != BrokerRole.SLAVE
                && controller.getBrokerConfig().getBrokerId() == 0
                && isElected();
    }

    /** Whether a controller says that this is the master, where there is one (5.x). */
    private boolean isElected() throws ReflectiveOperationException {
        try {
            Object replicas = BrokerController.class.getMethod("getReplicasManager").invoke(controller);
            return replicas == null || (boolean) replicas.getClass().getMethod("isMasterState").invoke(replicas);
        } catch (NoSuchMethodException before5) {
            return true;
        }
    }

    /** The store itself, whatever is plugged in front of it. */
    public DefaultMessageStore messages() throws ReflectiveOperationException {
        Object store = controller.getMessageStore();
        while (!(store instanceof DefaultMessageStore)) {
            store = RealStore.accessible(store.getClass().getSuperclass(), "next").get(store);
        }
        return (DefaultMessageStore) store;
    }

    void shutdown() {
        controller.shutdown();
    }
}
