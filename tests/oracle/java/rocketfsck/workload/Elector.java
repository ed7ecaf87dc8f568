package rocketfsck.workload;

/** What names the master of a group whose brokers take turns. */
public interface Elector {
    /** Where brokers find it. */
    String address();

    void shutdown();

    /** A controller (5.x) that keeps what it knows in a directory. */
    static Elector controllerAt(String directory) throws ReflectiveOperationException {
        return (Elector) Class.forName(Elector.class.getPackageName() + ".five.Controller")
                .getConstructor(String.class)
                .newInstance(directory);
    }
}
