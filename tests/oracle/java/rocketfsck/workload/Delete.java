package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;
import java.util.Set;

/** The topic {@code topic} is deleted from the master; {@code ms} (milliseconds) are left for its queues to go. */
public final class Delete implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        String topic = given.getString("topic");
        group.clients().admin().deleteTopicInBroker(Set.of(group.master().address()), topic);
        Thread.sleep(given.getLongValue("ms"));
    }
}
