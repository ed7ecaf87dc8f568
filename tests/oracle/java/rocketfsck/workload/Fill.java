package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages as {@link Texts} makes them, until the disk is full and beyond: {@code refusals} messages are refused,
 * then this ends.
 */
public final class Fill implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        DefaultMQProducer producer = clients.producer();
        producer.setRetryTimesWhenSendFailed(0);
        Texts texts = new Texts(given);
        clients.send(() -> producer.send(texts.next())); // now there is a route
        for (int refused = 0; refused < given.getIntValue("refusals"); ) {
            Message message = texts.next();
            try {
                clients.note(producer.send(message));
            } catch (Exception full) {
                refused++;
            }
        }
    }
}
