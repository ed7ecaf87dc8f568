package rocketfsck.oracle;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * What consumers may ask: a pull from every queue offset and around the ends, places by time. What the store code
 * throws is an answer too, the name of the class.
 */
public final class Questions {
    private final DefaultMessageStore store;
    private final JSONObject asked;

    /**
     * {@code asked}: {@code maxNums} of the pulls, {@code margin} offsets beyond the ends, {@code times} (ms), and
     * {@code most}, how many offsets of a queue are pulled from at most (0: all); {@code queues}, [topic, queueId] of
     * queues that the store may not have looked at yet (absent for none).
     */
    public Questions(DefaultMessageStore store, JSONObject asked) {
        this.store = store;
        this.asked = asked;
    }

    public List<Object> answers() throws Exception {
        Map<String, Set<Integer>> wanted = new TreeMap<>();
        store.getConsumeQueueTable().forEach((topic, queues) -> wanted.put(topic, new TreeSet<>(queues.keySet())));
        JSONArray names = asked.containsKey("queues") ? asked.getJSONArray("queues") : new JSONArray();
        for (int i = 0; i < names.size(); i++) {
            JSONArray name = names.getJSONArray(i);
            wanted.computeIfAbsent(name.getString(0), topic -> new TreeSet<>()).add(name.getInteger(1));
        }
        List<Object> queues = new ArrayList<>();
        for (Map.Entry<String, Set<Integer>> topic : wanted.entrySet()) {
            for (int queueId : topic.getValue()) {
                String name = topic.getKey();
                queues.add(List.of(name, queueId, bounds(name, queueId), pulls(name, queueId), times(name, queueId)));
            }
        }
        return queues;
    }

    private List<Object> bounds(String topic, int queueId) throws Exception {
        return List.of(store.getMinOffsetInQueue(topic, queueId), store.getMaxOffsetInQueue(topic, queueId));
    }

    private List<Object> pulls(String topic, int queueId) throws Exception {
        long margin = asked.getLongValue("margin");
        long low = Math.max(store.getMinOffsetInQueue(topic, queueId), 0) - margin;
        long high = store.getMaxOffsetInQueue(topic, queueId) + margin;
        List<Object> pulls = new ArrayList<>();
        long most = asked.getLongValue("most");
        long step = most == 0 ? 1 : Math.max(1, (high - low) / most);
        for (long offset = low; offset <= high; offset += step) {
            for (Object maxNum : asked.getJSONArray("maxNums")) {
                pulls.add(pull(topic, queueId, offset, ((Number) maxNum).intValue()));
            }
        }
        return pulls;
    }

    private List<Object> pull(String topic, int queueId, long offset, int maxNum) {
        List<Object> row = new ArrayList<>(List.of(offset, maxNum));
        try {
            GetMessageResult result = store.getMessage("oracle", topic, queueId, offset, maxNum, null);
            List<Long> found = new ArrayList<>();
            for (SelectMappedBufferResult message : result.getMessageMapedList()) {
                found.add(message.getStartOffset());
            }
            row.add(result.getStatus().name());
            row.add(found);
            row.add(result.getNextBeginOffset());
            row.add(result.getMinOffset());
            row.add(result.getMaxOffset());
            result.release();
        } catch (Exception thrown) {
            row.add(thrown.getClass().getName());
        }
        try {
            row.add(store.getCommitLogOffsetInQueue(topic, queueId, offset));
        } catch (Exception thrown) {
            row.add(thrown.getClass().getName());
        }
        return row;
    }

    /** For every boundary that this version knows, and for none, the answers to all times. */
    private Map<String, Object> times(String topic, int queueId) throws ReflectiveOperationException {
        Map<String, Object> answers = new TreeMap<>();
        for (Method method : DefaultMessageStore.class.getMethods()) {
            if (!method.getName().equals("getOffsetInQueueByTime")) {
                continue;
            }
            if (method.getParameterCount() == 3) {
                answers.put("", times(method, topic, queueId, null));
                continue;
            }
            for (Object boundary : method.getParameterTypes()[3].getEnumConstants()) {
                answers.put(String.valueOf(boundary).toLowerCase(), times(method, topic, queueId, boundary));
            }
        }
        return answers;
    }

    private List<Object> times(Method method, String topic, int queueId, Object boundary)
            throws ReflectiveOperationException {
        List<Object> answers = new ArrayList<>();
        JSONArray times = asked.getJSONArray("times");
        for (int i = 0; i < times.size(); i++) {
            long time = times.getLongValue(i);
            try {
                answers.add(boundary == null
                        ? method.invoke(store, topic, queueId, time)
                        : method.invoke(store, topic, queueId, time, boundary));
            } catch (InvocationTargetException thrown) {
                answers.add(thrown.getCause().getClass().getName());
            }
        }
        return answers;
    }
}
