package rocketfsck.oracle;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * Runs the real store code over store directories and says what it answers.
 *
 * <p>Every line of standard input is a job, every line of standard output the answer to one, in the order in
 * which they are done. A job: {@code id}, {@code store} (a directory), {@code settings} (MessageStoreConfig by
 * name), {@code batchTopics}, {@code keys} ([topic, key] pairs), {@code queues}
 * ([topic, queueId] pairs), {@code ask} (see {@link Questions}; absent for
 * none), {@code append} (messages, see {@link Puts}), {@code lingerMs} (what it goes on for then), {@code end}
 * ("stop" or "kill"). Stores that are to be killed keep running until all jobs are answered; then the whole process is halted with nothing said to any store.
 */
public final class Oracle {
    private static final long TIME_LIMIT_MINUTES = 20;

    private final PrintStream out =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);

    private Oracle() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // whatever the store code prints is no answer
        new Oracle().run(Integer.parseInt(arguments[0]));
    }

    private void run(int storesAtOnce) throws IOException, InterruptedException {
        List<String> jobs;
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            jobs = in.lines().collect(Collectors.toList());
        }
        ExecutorService workers = Executors.newFixedThreadPool(storesAtOnce);
        jobs.forEach(job -> workers.execute(() -> answer(JSON.parseObject(job))));
        workers.shutdown();
        boolean inTime = workers.awaitTermination(TIME_LIMIT_MINUTES, TimeUnit.MINUTES);
        // Threads of the stores outlive their shutdown, and an exit hook would be an orderly end.
        Runtime.getRuntime().halt(inTime ? 0 : 3);
    }

    private void answer(JSONObject job) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", job.get("id"));
        try {
            examine(job, answer);
        } catch (Throwable failure) {
            answer.put("failure", RealStore.described(failure));
        }
        String line = JSON.toJSONString(
                answer,
                SerializerFeature.DisableCircularReferenceDetect,
                SerializerFeature.BrowserCompatible,
                SerializerFeature.WriteMapNullValue);
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private void examine(JSONObject job, Map<String, Object> answer) throws Exception {
        RealStore store = RealStore.of(job);
        String refusal = store.begin();
        answer.put("loaded", refusal == null);
        answer.put("refusal", refusal);
        if (refusal != null) {
            return;
        }
        Answers answers = new Answers(store.messages(), job.getJSONArray("keys"), job.getJSONArray("queues"));
        answer.put("before", answers.state());
        if (job.containsKey("ask")) {
            answer.put("asked", new Questions(store.messages(), job.getJSONObject("ask")).answers());
        }
        JSONArray append = job.getJSONArray("append");
        long linger = job.getLongValue("lingerMs");
        if (!append.isEmpty() || linger > 0) {
            answer.put("put", Puts.putAll(store.messages(), append));
            Thread.sleep(linger);
            store.awaitDispatch();
            answer.put("after", answers.state());
        }
        if ("stop".equals(job.getString("end"))) {
            store.messages().shutdown();
        }
    }
}
