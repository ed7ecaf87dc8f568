package rocketfsck.workload;

import java.util.List;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A producer and the admin client of a group, and what the brokers acknowledged. */
public final class Clients {
    private static final int MOST_TRIES = 100;
    private static final long TRY_INTERVAL_MS = 200;
    private static final int TIMEOUT_MS = 15_000;
    private static final int MAX_MESSAGE_SIZE = 64 << 20;
    private static int count;

    private final DefaultMQProducer producer = new DefaultMQProducer("workload-producers");
    private final DefaultMQAdminExt admin = new DefaultMQAdminExt();
    private final List<List<Object>> acknowledged;
    private final String nameServer;
    private final String name = "clients-" + count++; // clients of the same name share what they know of routes

    /** What is acknowledged is added to a list that any thread may add to. */
    Clients(String nameServer, List<List<Object>> acknowledged) throws MQClientException {
        this.nameServer = nameServer;
        this.acknowledged = acknowledged;
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(name);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setMaxMessageSize(MAX_MESSAGE_SIZE);
        producer.setDefaultTopicQueueNums(2);
        producer.start();
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName(name + "-admin");
        admin.start();
    }

    public DefaultMQProducer producer() {
        return producer;
    }

    public DefaultMQAdminExt admin() {
        return admin;
    }

    public String nameServer() {
        return nameServer;
    }

    public String name() {
        return name;
    }

    /** One call that sends something. */
    @FunctionalInterface
    public interface Sending {
        SendResult send() throws MQClientException, RemotingException, MQBrokerException, InterruptedException;
    }

    /** Sends and notes what was acknowledged; otherwise as {@link #send(Sending, boolean)}. */
    public SendResult send(Sending sending) throws Exception {
        return send(sending, true);
    }

    /**
     * Sends, and again while there is no route: a topic, or a new master, is known after a while. {@code noted}: the
     * answer names the place of one message in its queue.
     */
    public SendResult send(Sending sending, boolean noted) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                SendResult result = sending.send();
                if (noted) {
                    note(result);
                }
                return result;
            } catch (MQClientException | RemotingException | MQBrokerException refused) {
                if (tries == MOST_TRIES) {
                    throw refused;
                }
                Thread.sleep(TRY_INTERVAL_MS);
            }
        }
    }

    /** Notes what was acknowledged. */
    public void note(SendResult result) {
        acknowledged.add(List.of(
                result.getMessageQueue().getTopic(),
                result.getMessageQueue().getQueueId(),
                result.getQueueOffset(),
                result.getMsgId(),
                String.valueOf(result.getOffsetMsgId())));
    }

    void shutdown() {
        producer.shutdown();
        admin.shutdown();
    }
}
