package rocketfsck.workload.five;

import com.alibaba.fastjson.JSONObject;
import java.util.List;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import rocketfsck.workload.Group;
import rocketfsck.workload.Work;

/** Users, {@code users} of them, each with a password and the right to send to {@code topic}. */
public final class Rights implements Work {
    @Override
    public void run(Group group, JSONObject given) throws Exception {
        DefaultMQAdminExt admin = group.clients().admin();
        String broker = group.master().address();
        for (int number = 0; number < given.getIntValue("users"); number++) {
            String user = "user-" + number;
            admin.createUser(broker, user, "password-" + number, "Normal");
            List<String> topics = List.of("Topic:" + given.getString("topic"));
            admin.createAcl(broker, "User:" + user, topics, List.of("Pub"), List.of("127.0.0.0/8"), "Allow");
        }
    }
}
