package rocketfsck.workload;

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
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.common.MQVersion;
import rocketfsck.oracle.RealStore;

/**
 * Starts real brokers, has clients work on them, and says what was acknowledged and what the brokers answer.
 *
 * <p>Every line of standard input is a job, every line of standard output the answer to one; one job is done after
 * the other. A job: {@code id}, {@code nodes} (see {@link Node#start}), {@code controller}
 * (a directory for one; absent for none), {@code works} (see {@link Work#named}),
 * {@code ask} ({@code keys}, {@code queues} and what {@link rocketfsck.oracle.Questions} takes; absent for none),
 * {@code end} ("stop" or "kill"). With a job that ends in a kill the process is halted at once, clients and all:
 * such a job is the last one.
 */
public final class Workloads {
    private final PrintStream out =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);
    private final List<Thread> closing = new ArrayList<>(); // brokers sleep for seconds while they stop

    private Workloads() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // whatever brokers print is no answer
        System.setProperty("rocketmq.remoting.version", String.valueOf(MQVersion.CURRENT_VERSION));
        Workloads workloads = new Workloads();
        workloads.run();
        workloads.awaitClosing();
        Runtime.getRuntime().halt(0); // threads of brokers outlive their shutdown
    }

    private void run() throws IOException, InterruptedException {
        List<String> jobs;
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            jobs = in.lines().collect(Collectors.toList());
        }
        for (String line : jobs) {
            JSONObject job = JSON.parseObject(line);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", job.get("id"));
            Group group = null;
            try {
                group = new Group(job.getJSONArray("nodes"), job.getString("controller"));
                answer.put("refusal", refusal(group));
                if (answer.get("refusal") == null) {
                    work(group, job, answer);
                }
            } catch (Throwable failure) {
                failure.printStackTrace();
                answer.put("failure", RealStore.described(failure));
            }
            answer.put("acknowledged", group == null ? List.of() : group.acknowledged());
            end(group, isKilled(job), answer);
        }
    }

    private static boolean isKilled(JSONObject job) {
        return "kill".equals(job.getString("end"));
    }

    private static String refusal(Group group) {
        try {
            group.startStopped();
            return null;
        } catch (Throwable refusal) {
            refusal.printStackTrace();
            return RealStore.described(refusal);
        }
    }

    private void work(Group group, JSONObject job, Map<String, Object> answer) throws Exception {
        JSONArray works = job.getJSONArray("works");
        for (int number = 0; number < works.size(); number++) {
            if (number == works.size() - 1 && isKilled(job)) {
                awaitClosing(); // a kill that came later than the works say would be another one
            }
            Work.named(works.getJSONObject(number)).run(group, works.getJSONObject(number));
        }
        if (job.containsKey("ask")) {
            answer.put("answers", group.answers(job.getJSONObject("ask")));
        }
    }

    private void end(Group group, boolean killed, Map<String, Object> answer) {
        String line = JSON.toJSONString(
                answer,
                SerializerFeature.DisableCircularReferenceDetect,
                SerializerFeature.BrowserCompatible,
                SerializerFeature.WriteMapNullValue);
        out.println(line);
        out.flush();
        if (killed) {
            Runtime.getRuntime().halt(0);
        }
        if (group != null) {
            group.quiet();
            Thread thread = new Thread(group::shutdown, "closing");
            thread.start();
            closing.add(thread);
        }
    }

    private void awaitClosing() throws InterruptedException {
        for (Thread thread : closing) {
            thread.join();
        }
        closing.clear();
    }
}
