package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.TopicConfig;

/** A topic that is made: {@code topic}, {@code queues} (how many), {@code attributes} (5.x; absent for none). */
public final class Topic implements Work {
    private static final long SETTLE_MS = 300;

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        TopicConfig topic = new TopicConfig(given.getString("topic"));
        topic.setReadQueueNums(given.getIntValue("queues"));
        topic.setWriteQueueNums(given.getIntValue("queues"));
        if (given.containsKey("attributes")) {
            Map<String, String> attributes = new HashMap<>();
            given.getJSONObject("attributes").forEach((name, value) -> attributes.put("+" + name, (String) value));
            TopicConfig.class.getMethod("setAttributes", Map.class).invoke(topic, attributes);
        }
        group.clients().admin().createAndUpdateTopicConfig(group.master().address(), topic);
        Thread.sleep(SETTLE_MS);
    }
}
