package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Messages with compressed bodies: {@code count} by each way that clients compress, as {@link Texts} makes them. */
public final class Packed implements Work {
    private static final String[] WAYS = {"ZLIB", "LZ4", "ZSTD"};
    private static final String SETTING = "rocketmq.message.compressType"; // which a producer reads when it is made
    private static final int FROM_SIZE = 100;

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        Texts texts = new Texts(given);
        for (String way : WAYS) {
            System.setProperty(SETTING, way);
            DefaultMQProducer producer = new DefaultMQProducer("packing-producers");
            producer.setNamesrvAddr(clients.nameServer());
            producer.setInstanceName(clients.name() + way);
            producer.setCompressMsgBodyOverHowmuch(FROM_SIZE);
            producer.start();
            for (int number = 0; number < given.getIntValue("count"); number++) {
                Message message = texts.next();
                clients.send(() -> producer.send(message));
            }
            producer.shutdown();
        }
        System.clearProperty(SETTING);
    }
}
