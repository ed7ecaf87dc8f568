package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Consumers, a group each, of {@code groups} groups: all of {@code topic} that {@code tags} names, from its first
 * message on, for {@code ms} milliseconds. One in {@code failing} messages fails, again and again, if that is given:
 * after {@code tries} it is a dead letter.
 */
public final class Consume implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int number = 0; number < given.getIntValue("groups"); number++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(given.getString("topic") + "-group-" + number);
            consumer.setNamesrvAddr(clients.nameServer());
            consumer.setInstanceName(clients.name() + "-consumer-" + number);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setMaxReconsumeTimes(given.getIntValue("tries"));
            consumer.setConsumeThreadMin(1);
            consumer.setConsumeThreadMax(2);
            consumer.subscribe(given.getString("topic"), given.getString("tags"));
            consumer.registerMessageListener(listener(given.getIntValue("failing")));
            consumer.start();
            consumers.add(consumer);
        }
        Thread.sleep(given.getLongValue("ms"));
        consumers.forEach(DefaultMQPushConsumer::shutdown);
    }

    private static MessageListenerConcurrently listener(int failing) {
        AtomicInteger count = new AtomicInteger();
        return (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            boolean again = messages.get(0).getReconsumeTimes() > 0;
            return failing > 0 && (again || count.incrementAndGet() % failing == 0)
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }
}
