package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactions, {@code count} of them with a message each, as {@link Texts} makes it: a third is committed, a third
 * rolled back, a third stays open.
 */
public final class Transactions implements Work {
    private static final LocalTransactionState[] STATES = {
        LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.UNKNOW
    };

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        Clients clients = group.clients();
        TransactionMQProducer producer = new TransactionMQProducer("transaction-producers");
        producer.setNamesrvAddr(clients.nameServer());
        producer.setInstanceName(clients.name() + "-transactions");
        producer.setTransactionListener(new Listener());
        producer.start();
        group.atEnd(producer::shutdown);
        Texts texts = new Texts(given);
        for (int number = 0; number < given.getIntValue("count"); number++) {
            Message message = texts.next();
            LocalTransactionState state = STATES[number % STATES.length];
            clients.send(() -> producer.sendMessageInTransaction(message, state), false);
        }
    }

    private static final class Listener implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object state) {
            return (LocalTransactionState) state;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }
}
