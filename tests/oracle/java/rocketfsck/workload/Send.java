package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages sent one after the other: {@code count} of them as {@link Texts} makes them, with {@code delay} (a level)
 * and {@code pause} (ms between two) where these are given.
 */
public final class Send implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        DefaultMQProducer producer = clients.producer();
        Texts texts = new Texts(given);
        boolean isLater = given.containsKey("delay") || given.containsKey("system"); // the answer names another queue
        for (int number = 0; number < given.getIntValue("count"); number++) {
            Message message = texts.next();
            if (given.containsKey("delay")) {
                message.setDelayTimeLevel(given.getIntValue("delay"));
            }
            clients.send(() -> producer.send(message), !isLater);
            Thread.sleep(given.getLongValue("pause"));
        }
    }
}
