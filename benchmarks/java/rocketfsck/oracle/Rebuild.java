package rocketfsck.oracle;

import com.alibaba.fastjson.JSON;
import com.sun.management.OperatingSystemMXBean;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;

/**
 * Opens a store without queues and index, which makes the store code write them, and says how many seconds
 * and CPU seconds that took: {@code [1.5, 2.5]}. The one argument is a job as of {@link Oracle}.
 */
public final class Rebuild {
    private Rebuild() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // whatever the store code prints is no answer
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long started = System.nanoTime();
        RealStore store = RealStore.of(JSON.parseObject(arguments[0]));
        String refusal = store.begin();
        double seconds = (System.nanoTime() - started) / 1e9;
        double used = (system.getProcessCpuTime() - cpu) / 1e9;
        if (refusal != null) {
            System.err.println(refusal);
            Runtime.getRuntime().halt(1);
        }
        store.messages().shutdown();
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out));
        out.println(JSON.toJSONString(new double[] {seconds, used}));
        out.flush();
        // Threads of the store outlive its shutdown.
        Runtime.getRuntime().halt(0);
    }
}
