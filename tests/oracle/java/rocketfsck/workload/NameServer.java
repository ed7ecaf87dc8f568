package rocketfsck.workload;

import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;

/** The name server of a group. */
final class NameServer {
    private final NamesrvController controller;
    private final int port = Ports.free(1);

    NameServer() throws Exception {
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        controller = new NamesrvController(new NamesrvConfig(), server);
        if (!controller.initialize()) {
            throw new IllegalStateException("the name server does not initialize");
        }
        controller.start();
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    void shutdown() {
        controller.shutdown();
    }
}
