package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Batches of a client, {@code count} of them with one to {@code items} messages each, as {@link Texts} makes them. A
 * topic of batch queues gets each as one record.
 */
public final class Batch implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        DefaultMQProducer producer = clients.producer();
        Texts texts = new Texts(given);
        for (int number = 0; number < given.getIntValue("count"); number++) {
            List<Message> messages = new ArrayList<>();
            for (int item = 0; item <= number % given.getIntValue("items"); item++) {
                messages.add(texts.next());
            }
            clients.send(() -> producer.send(messages), false);
        }
    }
}
