package rocketfsck.workload;

import com.alibaba.fastjson.JSONObject;

/** Something that is done to a group of brokers. Each work is a class of this name, found by it. */
public interface Work {
    /** Does it; what it needs to know is in {@code given}, the work's own JSON object. */
    void run(Group group, JSONObject given) throws Exception;

    /** The work that {@code given} names with {@code do}; those of {@code five} are there for 5.x only. */
    static Work named(JSONObject given) throws ReflectiveOperationException {
        String home = Work.class.getPackageName();
        String name = given.getString("do");
        try {
            return (Work) Class.forName(home + "." + name).getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException elsewhere) {
            return (Work) Class.forName(home + ".five." + name).getDeclaredConstructor().newInstance();
        }
    }
}
