package rocketfsck.workload;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/**
 * Messages by a few words: {@code topic} (with {@code #} for a number below {@code topics}), {@code body} (least and
 * greatest size), {@code zeros} (whether bodies have nothing else), {@code keys} (how many a message has, of {@code words}), {@code tags} (of which one is taken; ""
 * for none), {@code properties} (a user's own), {@code system} (RocketMQ's own; {@code +N} is
 * the time N milliseconds from now, and N more with each message), {@code seed}.
 */
public final class Texts {
    private static final String LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789";

    private final JSONObject given;
    private final Random random;
    private int number;

    public Texts(JSONObject given) {
        this.given = given;
        random = new Random(given.getLongValue("seed"));
    }

    /** The next message. */
    public Message next() {
        Message message = new Message(topic(), body());
        List<String> keys = new ArrayList<>();
        for (int key = 0; key < given.getIntValue("keys"); key++) {
            keys.add("key-" + random.nextInt(given.getIntValue("words")));
        }
        if (!keys.isEmpty()) {
            message.setKeys(String.join(" ", keys));
        }
        JSONArray tags = given.getJSONArray("tags");
        String tag = tags == null ? "" : tags.getString(number % tags.size());
        if (!tag.isEmpty()) {
            message.setTags(tag);
        }
        if (given.containsKey("properties")) {
            given.getJSONObject("properties").forEach((name, value) -> message.putUserProperty(name, (String) value));
        }
        if (given.containsKey("system")) {
            given.getJSONObject("system").forEach((name, value) ->
                    MessageAccessor.putProperty(message, name, system((String) value)));
        }
        message.setFlag(number % 3);
        number++;
        return message;
    }

    private String topic() {
        return numbered(given.getString("topic"));
    }

    private String system(String value) {
        return value.startsWith("+")
                ? "" + (System.currentTimeMillis() + Long.parseLong(value.substring(1)) * (number + 1))
                : numbered(value);
    }

    private String numbered(String text) {
        return text.contains("#") ? text.replace("#", "" + number % given.getIntValue("topics")) : text;
    }

    private byte[] body() {
        JSONArray sizes = given.getJSONArray("body");
        int least = sizes.getIntValue(0);
        int size = least + random.nextInt(sizes.getIntValue(1) - least + 1);
        if (given.getBooleanValue("zeros")) {
            return new byte[size];
        }
        StringBuilder body = new StringBuilder();
        for (int place = 0; place < size; place++) {
            body.append(LETTERS.charAt(random.nextInt(LETTERS.length())));
        }
        return body.toString().getBytes(StandardCharsets.US_ASCII);
    }
}
