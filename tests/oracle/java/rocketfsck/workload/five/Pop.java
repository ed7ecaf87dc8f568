package rocketfsck.workload.five;

import com.alibaba.fastjson.JSONObject;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageRequestMode;
import rocketfsck.workload.Clients;
import rocketfsck.workload.Group;
import rocketfsck.workload.Work;

/** A group that pops {@code topic} for {@code ms} milliseconds; one in {@code failing} messages fails. */
public final class Pop implements Work {
    private static final long INVISIBLE_MS = 10_000;
    private static final int SHARED = 4;

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        String topic = given.getString("topic");
        String name = topic + "-popping";
        clients.admin().setMessageRequestMode(
                group.master().address(), topic, name, MessageRequestMode.POP, SHARED, INVISIBLE_MS);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(clients.nameServer());
        consumer.setInstanceName(clients.name() + "-popping");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(INVISIBLE_MS);
        consumer.subscribe(topic, "*");
        AtomicInteger count = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                count.incrementAndGet() % given.getIntValue("failing") == 0
                        ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                        : ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        Thread.sleep(given.getLongValue("ms"));
        consumer.shutdown();
    }
}
