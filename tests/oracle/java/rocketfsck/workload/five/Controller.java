package rocketfsck.workload.five;

import org.apache.rocketmq.common.ControllerConfig;
import org.apache.rocketmq.controller.ControllerManager;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import rocketfsck.workload.Elector;
import rocketfsck.workload.Ports;

/** A lonely controller. */
public final class Controller implements Elector {
    private static final long ELECTION_MS = 3_000; // after which it is the leader of the controllers: there is no other

    private final ControllerManager manager;
    private final int port = Ports.free(1);

    public Controller(String directory) throws Exception {
        ControllerConfig config = new ControllerConfig();
        config.setControllerDLegerGroup("controllers");
        config.setControllerDLegerPeers("c0-" + address());
        config.setControllerDLegerSelfId("c0");
        config.setControllerStorePath(directory);
        config.setConfigStorePath(directory + "/controller.properties");
        config.setControllerType("DLedger");
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        manager = new ControllerManager(config, server, new NettyClientConfig());
        if (!manager.initialize()) {
            throw new IllegalStateException("the controller does not initialize");
        }
        manager.start();
        Thread.sleep(ELECTION_MS);
    }

    @Override
    public String address() {
        return "127.0.0.1:" + port;
    }

    @Override
    public void shutdown() {
        manager.shutdown();
    }
}
