package rocketfsck.workload;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.store.DefaultMessageStore;
import rocketfsck.oracle.Answers;
import rocketfsck.oracle.Questions;
import rocketfsck.oracle.RealStore;

/** A name server, the brokers of a group, and their clients. */
public final class Group {
    private static final int MOST_LOOKS = 300;
    private static final long LOOK_INTERVAL_MS = 100;

    private final NameServer names;
    private final Elector elector;
    private final JSONArray given;
    private final List<Node> nodes = new ArrayList<>();
    private final List<Runnable> ends = new ArrayList<>();
    private final List<List<Object>> acknowledged = Collections.synchronizedList(new ArrayList<>());
    private Clients clients;

    /** {@code given}: the nodes, see {@link Node#start}; none is started yet. With a controller in a directory. */
    Group(JSONArray given, String controller) throws Exception {
        this.given = given;
        names = new NameServer();
        elector = controller == null ? null : Elector.controllerAt(controller);
        for (int number = 0; number < given.size(); number++) {
            nodes.add(null);
        }
    }

    /** Starts all nodes that do not run. */
    void startStopped() throws Exception {
        for (int number = 0; number < given.size(); number++) {
            if (nodes.get(number) == null) {
                start(number, Map.of());
            }
        }
    }

    int numberOf(Node node) {
        return nodes.indexOf(node);
    }

    /** Starts a node, with other settings of its broker and its store where {@code other} has some. */
    void start(int number, Map<String, Object> other) throws Exception {
        JSONObject node = given.getJSONObject(number);
        for (String kind : List.of("broker", "store")) {
            if (other.get(kind) != null) {
                node.getJSONObject(kind).putAll((JSONObject) other.get(kind));
            }
        }
        nodes.set(number, Node.start(node, names.address(), elector == null ? null : elector.address()));
    }

    void stop(int number) {
        Node node = nodes.set(number, null);
        if (node != null) {
            node.shutdown();
        }
    }

    public String nameServer() {
        return names.address();
    }

    public Node node(int number) {
        return nodes.get(number);
    }

    /** The master, awaited for half a minute. */
    public Node master() throws Exception {
        for (int looks = 0; looks < MOST_LOOKS; looks++) {
            for (Node node : nodes) {
                if (node != null && node.isMaster()) {
                    return node;
                }
            }
            Thread.sleep(LOOK_INTERVAL_MS);
        }
        throw new IllegalStateException("no broker of the group is its master");
    }

    /** Until every node that runs has the master's log, and has dispatched it; slaves take its topics, too. */
    void awaitSync() throws Exception {
        Node first = master();
        DefaultMessageStore master = first.messages();
        for (Node node : nodes) {
            if (node != null) {
                for (int looks = 0; node.messages().getMaxPhyOffset() < master.getMaxPhyOffset(); looks++) {
                    if (looks == MOST_LOOKS) {
                        throw new IllegalStateException("a slave does not have all of the log of its master");
                    }
                    Thread.sleep(LOOK_INTERVAL_MS);
                }
                RealStore.awaitDispatch(node.messages());
                if (node != first) {
                    node.controller().getSlaveSynchronize().syncAll(); // later versions: once a minute
                }
            }
        }
    }

    public Clients clients() throws Exception {
        if (clients == null) {
            clients = new Clients(names.address(), acknowledged);
        }
        return clients;
    }

    /** Has something done before the clients are stopped. */
    public void atEnd(Runnable end) {
        ends.add(end);
    }

    /** Topic, queueId, queueOffset, unique id and offset id of what was acknowledged, in the order of answers. */
    List<List<Object>> acknowledged() {
        synchronized (acknowledged) {
            return new ArrayList<>(acknowledged);
        }
    }

    /** What each node answers that runs; see {@link Answers} and {@link Questions}. */
    List<Object> answers(JSONObject ask) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (Node node : nodes) {
            if (node == null) {
                answers.add(null);
                continue;
            }
            DefaultMessageStore store = node.messages();
            RealStore.awaitDispatch(store);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("state", new Answers(store, ask.getJSONArray("keys"), ask.getJSONArray("queues")).state());
            answer.put("asked", new Questions(store, ask).answers());
            answers.add(answer);
        }
        return answers;
    }

    /** Stops what was begun for the works, then the clients: new ones know no node that is gone. */
    void quiet() {
        ends.forEach(Runnable::run);
        ends.clear();
        if (clients != null) {
            clients.shutdown();
            clients = null;
        }
    }

    void shutdown() {
        quiet();
        for (int number = 0; number < nodes.size(); number++) {
            stop(number);
        }
        if (elector != null) {
            elector.shutdown();
        }
        names.shutdown();
    }
}
