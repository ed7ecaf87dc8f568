package rocketfsck.workload;

import java.io.IOException;
import java.net.ServerSocket;
import java.util.Random;

/** Ports that nobody listens on. */
public final class Ports {
    private static final int FIRST = 20_000;
    private static final int COUNT = 10_000;
    private static final Random RANDOM = new Random();

    private Ports() {}

    /** The first of so many free ports in a row: a broker listens on three. */
    public static int free(int inRow) {
        while (true) {
            int first = FIRST + RANDOM.nextInt(COUNT);
            if (areFree(first, inRow)) {
                return first;
            }
        }
    }

    private static boolean areFree(int first, int inRow) {
        for (int port = first; port < first + inRow; port++) {
            try (ServerSocket socket = new ServerSocket(port)) {
                socket.setReuseAddress(true);
            } catch (IOException taken) {
                return false;
            }
        }
        return true;
    }
}
