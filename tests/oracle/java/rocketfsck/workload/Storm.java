package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages as {@link Texts} makes them, sent by {@code threads} at once and on and on: this work ends after
 * {@code ms} milliseconds, the sending with the clients, or with a kill in the middle of it.
 */
public final class Storm implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        AtomicBoolean calm = new AtomicBoolean();
        for (int number = 0; number < given.getIntValue("threads"); number++) {
            JSONObject own = (JSONObject) given.clone();
            own.put("seed", number);
            Thread thread = new Thread(() -> send(clients, new Texts(own), calm), "storm-" + number);
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(given.getLongValue("ms"));
        group.atEnd(() -> calm.set(true));
    }

    private static void send(Clients clients, Texts texts, AtomicBoolean calm) {
        DefaultMQProducer producer = clients.producer();
        while (!calm.get()) {
            Message message = texts.next();
            try {
                clients.note(producer.send(message));
            } catch (Exception refused) { // nobody promised anything for this one
                continue;
            }
        }
    }
}
