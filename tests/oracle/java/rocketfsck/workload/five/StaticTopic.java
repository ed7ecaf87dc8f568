package rocketfsck.workload.five;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Options;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.command.topic.UpdateStaticTopicSubCommand;
import rocketfsck.workload.Group;
import rocketfsck.workload.Node;
import rocketfsck.workload.Work;

/** A static topic that is made: {@code topic}, with {@code queues} logical queues. */
public final class StaticTopic implements Work {
    private static final long SETTLE_MS = 2_000;
    private static final int MOST_LOOKS = 300;
    private static final long LOOK_INTERVAL_MS = 100;

    @Override
    public void run(Group group, JSONObject given) throws Exception {
        UpdateStaticTopicSubCommand command = new UpdateStaticTopicSubCommand();
        Options options = command.buildCommandlineOptions(ServerUtil.buildCommandlineOptions(new Options()));
        String[] words = {
            "-n", group.nameServer(), "-t", given.getString("topic"), "-qn", given.getString("queues"), "-c", Node.CLUSTER
        };
        CommandLine line = new DefaultParser().parse(options, words);
        System.setProperty("rocketmq.namesrv.addr", group.nameServer());
        awaitCluster(group);
        command.execute(line, options, null);
        Thread.sleep(SETTLE_MS);
    }

    /** A broker that starts before its look for name servers ends registers with them ten seconds later. */
    private static void awaitCluster(Group group) throws Exception {
        for (int looks = 0; looks < MOST_LOOKS; looks++) {
            Map<String, ?> clusters = group.clients().admin().examineBrokerClusterInfo().getClusterAddrTable();
            if (clusters != null && clusters.containsKey(Node.CLUSTER)) {
                return;
            }
            Thread.sleep(LOOK_INTERVAL_MS);
        }
        throw new IllegalStateException("no broker of the group has registered");
    }
}
