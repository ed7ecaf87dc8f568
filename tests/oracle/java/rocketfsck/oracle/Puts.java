package rocketfsck.oracle;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.message.*; // one of these two packages has MessageExtBrokerInner
import org.apache.rocketmq.store.*;

/**
 * Messages handed to the real store as a broker's processors hand them over.
 *
 * <p>A message: {@code topic, queueId, body} (base64), {@code properties, sysFlag, flag, bornTimestamp,
 * bornHost, storeHost} ([address, port]), {@code reconsumeTimes, preparedTransactionOffset}; one with
 * {@code batch} ({@code body, flag, properties} each) goes through putMessages as a client's batch does.
 */
final class Puts {
    /** Index files are named by the millisecond: two made in one are one, and what the second had is lost. */
    private static final long INTERVAL_MS = 4;

    private static final int BORN_HOST_V6 = 0x10;
    private static final int STORE_HOST_V6 = 0x20;

    private Puts() {}

    static List<Object> putAll(DefaultMessageStore store, JSONArray messages) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (int i = 0; i < messages.size(); i++) {
            rows.add(row(put(store, messages.getJSONObject(i))));
            Thread.sleep(INTERVAL_MS);
        }
        return rows;
    }

    private static PutMessageResult put(DefaultMessageStore store, JSONObject given) throws Exception {
        JSONArray batch = given.getJSONArray("batch");
        if (batch == null) {
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            fill(message, given);
            message.setBody(Base64.getDecoder().decode(given.getString("body")));
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            String tags = message.getTags();
            message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, tags));
            return store.putMessage(message);
        }
        List<Message> items = new ArrayList<>();
        for (int i = 0; i < batch.size(); i++) {
            JSONObject part = batch.getJSONObject(i);
            Message item = new Message(given.getString("topic"), Base64.getDecoder().decode(part.getString("body")));
            item.setFlag(part.getIntValue("flag"));
            MessageAccessor.setProperties(item, strings(part.getJSONObject("properties")));
            items.add(item);
        }
        MessageExtBatch message = new MessageExtBatch();
        fill(message, given);
        message.setBody(MessageDecoder.encodeMessages(items));
        return store.putMessages(message);
    }

    private static void fill(MessageExt message, JSONObject given) throws UnknownHostException {
        message.setTopic(given.getString("topic"));
        message.setQueueId(given.getIntValue("queueId"));
        message.setFlag(given.getIntValue("flag"));
        message.setBornTimestamp(given.getLongValue("bornTimestamp"));
        message.setReconsumeTimes(given.getIntValue("reconsumeTimes"));
        message.setPreparedTransactionOffset(given.getLongValue("preparedTransactionOffset"));
        InetSocketAddress born = address(given.getJSONArray("bornHost"));
        InetSocketAddress stored = address(given.getJSONArray("storeHost"));
        message.setBornHost(born);
        message.setStoreHost(stored);
        int flags = given.getIntValue("sysFlag");
        flags |= born.getAddress() instanceof Inet6Address ? BORN_HOST_V6 : 0;
        flags |= stored.getAddress() instanceof Inet6Address ? STORE_HOST_V6 : 0;
        message.setSysFlag(flags);
        MessageAccessor.setProperties(message, strings(given.getJSONObject("properties")));
    }

    private static InetSocketAddress address(JSONArray given) throws UnknownHostException {
        return new InetSocketAddress(InetAddress.getByName(given.getString(0)), given.getIntValue(1));
    }

    private static Map<String, String> strings(JSONObject given) {
        Map<String, String> properties = new HashMap<>();
        given.forEach((name, value) -> properties.put(name, (String) value));
        return properties;
    }

    private static Map<String, Object> row(PutMessageResult put) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("status", String.valueOf(put.getPutMessageStatus()));
        AppendMessageResult result = put.getAppendMessageResult();
        if (result != null) {
            row.put("physicalOffset", result.getWroteOffset());
            row.put("size", result.getWroteBytes());
            row.put("queueOffset", result.getLogicsOffset());
            row.put("storeTimestamp", result.getStoreTimestamp());
            row.put("msgId", result.getMsgId());
        }
        return row;
    }
}
