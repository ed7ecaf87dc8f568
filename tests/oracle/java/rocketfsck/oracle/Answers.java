package rocketfsck.oracle;

import com.alibaba.fastjson.JSONArray;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.index.IndexService;

/** What a running store answers: bounds, every message by queue offset, messages by key. */
public final class Answers {
    private static final int MAX_NUM = 64;
    private static final int PHYSICAL_OFFSET = 28;

    private final DefaultMessageStore store;
    private final JSONArray keys;
    private final JSONArray names;

    /** {@code names} are [topic, queueId] of queues that the store may not have looked at yet. */
    public Answers(DefaultMessageStore store, JSONArray keys, JSONArray names) {
        this.store = store;
        this.keys = keys;
        this.names = names;
    }

    public Map<String, Object> state() throws Exception {
        Map<String, Object> state = new LinkedHashMap<>();
        state.put("minOffset", store.getMinPhyOffset());
        state.put("maxOffset", store.getMaxPhyOffset());
        state.put("queues", queues());
        state.put("keys", byKey());
        return state;
    }

    private List<Object> queues() throws Exception {
        Map<String, Set<Integer>> wanted = new TreeMap<>();
        store.getConsumeQueueTable().forEach((topic, queues) -> wanted.put(topic, new TreeSet<>(queues.keySet())));
        for (int i = 0; i < names.size(); i++) {
            JSONArray name = names.getJSONArray(i);
            wanted.computeIfAbsent(name.getString(0), topic -> new TreeSet<>()).add(name.getInteger(1));
        }
        List<Object> queues = new ArrayList<>();
        for (Map.Entry<String, Set<Integer>> topic : wanted.entrySet()) {
            for (int queueId : topic.getValue()) {
                queues.add(queue(topic.getKey(), queueId));
            }
        }
        return queues;
    }

    private Map<String, Object> queue(String topic, int queueId) throws Exception {
        long min = store.getMinOffsetInQueue(topic, queueId);
        long max = store.getMaxOffsetInQueue(topic, queueId);
        List<Object> messages = new ArrayList<>();
        for (long offset = Math.max(min, 0); offset < max; ) {
            GetMessageResult result = null;
            String status;
            try {
                result = store.getMessage("oracle", topic, queueId, offset, 1, null);
                status = String.valueOf(result == null ? null : result.getStatus());
            } catch (RuntimeException thrown) {
                status = thrown.getClass().getName();
            }
            long next = offset + 1;
            if (result == null || result.getMessageMapedList().isEmpty()) {
                Map<String, Object> none = new LinkedHashMap<>();
                none.put("queueOffset", offset);
                none.put("status", status);
                messages.add(none);
            } else {
                for (SelectMappedBufferResult found : result.getMessageMapedList()) {
                    messages.add(message(offset, found.getStartOffset(), found.getByteBuffer()));
                }
                next = Math.max(next, result.getNextBeginOffset()); // past the whole of a batch
                result.release();
            }
            offset = next;
        }
        Map<String, Object> queue = new LinkedHashMap<>();
        queue.put("topic", topic);
        queue.put("queueId", queueId);
        queue.put("minOffset", min);
        queue.put("maxOffset", max);
        queue.put("messages", messages);
        return queue;
    }

    private static Map<String, Object> message(long queueOffset, long position, ByteBuffer bytes) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("queueOffset", queueOffset);
        row.put("status", "FOUND");
        row.put("physicalOffset", position);
        row.put("size", bytes.remaining());
        byte[] record = new byte[bytes.remaining()];
        bytes.duplicate().get(record);
        row.put("recordSha256", sha256(record));
        MessageExt message = decoded(bytes.slice());
        row.put("decoded", message != null);
        if (message == null) {
            return row;
        }
        row.put("topic", message.getTopic());
        row.put("queueId", message.getQueueId());
        row.put("recordQueueOffset", message.getQueueOffset());
        row.put("recordPhysicalOffset", message.getCommitLogOffset());
        row.put("bodySize", message.getBody() == null ? 0 : message.getBody().length);
        row.put("bodySha256", sha256(message.getBody() == null ? new byte[0] : message.getBody()));
        row.put("bodyCRC", message.getBodyCRC());
        row.put("sysFlag", message.getSysFlag());
        row.put("flag", message.getFlag());
        row.put("bornTimestamp", message.getBornTimestamp());
        row.put("bornHost", String.valueOf(message.getBornHost()));
        row.put("storeTimestamp", message.getStoreTimestamp());
        row.put("storeHost", String.valueOf(message.getStoreHost()));
        row.put("reconsumeTimes", message.getReconsumeTimes());
        row.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        row.put("properties", message.getProperties());
        return row;
    }

    /** Null for what the decoder does not take: bytes that are no message may ask it for more memory than there is. */
    private static MessageExt decoded(ByteBuffer bytes) {
        try {
            return MessageDecoder.decode(bytes, true, false);
        } catch (RuntimeException | OutOfMemoryError refused) {
            return null;
        }
    }

    private List<Object> byKey() throws Exception {
        IndexService index = (IndexService) RealStore.accessible(DefaultMessageStore.class, "indexService").get(store);
        List<Object> rows = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            String topic = keys.getJSONArray(i).getString(0);
            String key = keys.getJSONArray(i).getString(1);
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("topic", topic);
            row.put("key", key);
            row.put("indexed", index.queryOffset(topic, key, MAX_NUM, 0, Long.MAX_VALUE).getPhyOffsets());
            List<Long> served = new ArrayList<>();
            QueryMessageResult result = query(topic, key);
            for (ByteBuffer bytes : result.getMessageBufferList()) {
                boolean whole = bytes.remaining() >= PHYSICAL_OFFSET + Long.BYTES;
                served.add(whole ? bytes.getLong(bytes.position() + PHYSICAL_OFFSET) : -1);
            }
            result.release();
            row.put("served", served);
            rows.add(row);
        }
        return rows;
    }

    /** As the broker asks for a client: since 5.4.0 by a method of its own, which minds an unreadable message less. */
    private QueryMessageResult query(String topic, String key) throws ReflectiveOperationException {
        try {
            return (QueryMessageResult) DefaultMessageStore.class
                    .getMethod("queryMessage", String.class, String.class, int.class, long.class, long.class, String.class, String.class)
                    .invoke(store, topic, key, MAX_NUM, 0L, Long.MAX_VALUE, "K", null);
        } catch (NoSuchMethodException error) {
            return store.queryMessage(topic, key, MAX_NUM, 0, Long.MAX_VALUE);
        }
    }

    private static String sha256(byte[] bytes) throws GeneralSecurityException {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }
}
